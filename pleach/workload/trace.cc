#include "pleach/workload/trace.h"

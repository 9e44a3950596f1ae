#include "pleach/training/costs.h"

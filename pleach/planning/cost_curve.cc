#include "pleach/planning/cost_curve.h"

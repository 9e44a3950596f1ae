// The rows of a training as JSON, for the results that have such rows.
#pragma once

#include <span>

#include "pleach/report/json.h"
#include "pleach/training/training.h"

namespace pleach {

// An array; speedups are over the first row.
Json rows_json(std::span<const TrainingRow> rows, bool with_buckets);

}  // namespace pleach

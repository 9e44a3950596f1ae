// What a planner chooses at some sizes, and a book.
#pragma once

#include <string>

#include "pleach/planning/book.h"
#include "pleach/report/comparison.h"

namespace pleach {

// One line: the JSON object of docs/cli.md, "plan", of rows that are all the planner's.
std::string plan_json(const Comparison& choices);
// The same of a book, which has no times.
std::string plan_json(const Book& book);

// "ring,form=explicit": the algorithm of a schedule with its options.
std::string algorithm_text(const Provenance& provenance);

}  // namespace pleach

// What each question is answered when nobody else asks, and whether an answer under load is that.
#pragma once

#include <string>
#include <vector>

#include "bench/load/client.h"

namespace suture {

using Reference = std::vector<Answer>;  // [turns of a script]

// Asks the scripts one after another.
Result<std::vector<Reference>> take_references(const std::string& launch,
                                               const std::vector<LoadScript>& scripts);

// The conversation had lost its K/V to others and was read again.
bool read_again(const LoadOutcome& outcome, const Answer& alone);

// What is wrong with the outcome of a question whose answer is `alone`; empty if nothing is. What
// has come of an answer that was ended early must be the beginning of it.
std::string fault_of(const LoadOutcome& outcome, const Answer& alone);

// Refused because the launch is full; the question may be asked again.
bool refused(const LoadOutcome& outcome);

}  // namespace suture

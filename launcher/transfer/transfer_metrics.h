// What the arms of a transfer benchmark say: means over texts, what of the context's worth is kept,
// and how far the answers drift.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/eval/statistics.h"

namespace suture {

// What the continuation's tokens are judged with.
enum class TransferArm : uint8_t {
  kSelf,         // the target reads the context itself
  kTransferred,  // it takes the source's rows of it
  kOtherText,    // it takes the source's rows of another text
  kTextOnly,     // it reads the same first and last tokens itself, and has nothing between
  kNone,         // it has no context
  kSource,       // the source by itself reads the context
};
inline constexpr size_t kTransferArms = 6;
// "self", "transferred", "other_text", "text_only", "none", "source".
std::string_view transfer_arm_name(TransferArm arm);

// Of one text in one arm.
struct ArmScore {
  double nll = 0;   // mean negative log-likelihood of a token of the continuation, in nats
  double kl = 0;    // mean divergence from the target that read the context itself, in nats
  double top1 = 0;  // share of tokens where both find the same one most likely
  // Mean negative log-likelihood of what that target finds most likely, in nats.
  double consistency = 0;
};

// The divergence of q from p, of which the most likely tokens of p are told one by one and all
// others count as one: both spans hold ln of probabilities of the same tokens.
double divergence(std::span<const float> log_p, std::span<const float> log_q);

struct PassageResult {
  std::string kind;
  std::array<std::optional<ArmScore>, kTransferArms> arms;

  const std::optional<ArmScore>& of(TransferArm arm) const {
    return arms[static_cast<size_t>(arm)];
  }
};

struct MeanValue {
  double value = 0;   // NaN where there is nothing to say
  Interval interval;  // 95 %, over texts; NaN for fewer than two
};

struct TransferSummary {
  int64_t n = 0;  // texts that have been through all arms
  std::array<MeanValue, kTransferArms> nll;
  std::array<MeanValue, kTransferArms> kl;
  std::array<MeanValue, kTransferArms> top1;
  std::array<MeanValue, kTransferArms> consistency;
  MeanValue retention;        // (none - transferred) / (none - self)
  MeanValue net_retention;    // (text only - transferred) / (text only - self)
  MeanValue other_retention;  // of the other text's rows
  // By how much the arm's negative log-likelihood exceeds the transferred target's.
  MeanValue over_source;
  MeanValue over_other_text;
  MeanValue over_text_only;

  const MeanValue& nll_of(TransferArm arm) const { return nll[static_cast<size_t>(arm)]; }
};

// Over the texts of this kind, or of all.
TransferSummary summarise_transfer(std::span<const PassageResult> passages, uint64_t seed,
                                   const std::optional<std::string>& kind = std::nullopt);

// The kinds that occur, in order of their names; none if no text says of what kind it is.
std::vector<std::string> kinds_of(std::span<const PassageResult> passages);

}  // namespace suture

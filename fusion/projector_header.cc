#include "fusion/projector_header.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <fmt/format.h>
#include <kj/exception.h>

#include <cstring>
#include <limits>
#include <utility>

#include "schemas/projector.capnp.h"

namespace suture {
namespace {

tl::unexpected<Error> corrupt(std::string what) {
  return fail(ErrorCode::kCorrupt, std::move(what), "projector header");
}

unsigned list_size(size_t n) { return static_cast<unsigned>(n); }

// ---- Writing ----

kj::StringPtr text(const std::string& value) { return {value.c_str(), value.size()}; }

void write_side(schema::ProjectorSide::Builder message, const ProjectorSide& side) {
  message.setModel(text(side.model));
  message.setVocabularyHash(text(side.vocabulary_hash));
  const std::vector<std::byte> kv = encode_stream_info(side.kv);
  message.setKv(kj::arrayPtr(reinterpret_cast<const kj::byte*>(kv.data()), kv.size()));
}

void write_map(schema::LinearMap::Builder message, const LinearMap& map) {
  auto window = message.initWindow(list_size(map.window.size()));
  for (unsigned i = 0; i < window.size(); ++i) window.set(i, static_cast<uint32_t>(map.window[i]));
  message.setDtype(static_cast<uint8_t>(map.dtype));
  message.setRidge(map.ridge);
  message.setR2(map.r2);
  message.setMse(map.mse);
}

void write_kind(schema::HeldOutKind::Builder message, const HeldOutKind& kind) {
  message.setKind(text(kind.kind));
  message.setTexts(static_cast<uint64_t>(kind.texts));
  message.setTokens(static_cast<uint64_t>(kind.tokens));
  message.setKeyR2(kind.key_r2);
  message.setKeyMse(kind.key_mse);
  message.setValueR2(kind.value_r2);
  message.setValueMse(kind.value_mse);
}

void write_fit(schema::FitParameters::Builder message, const FitParameters& fit) {
  message.setTexts(static_cast<uint64_t>(fit.texts));
  message.setHeldOutTexts(static_cast<uint64_t>(fit.held_out_texts));
  message.setTokens(static_cast<uint64_t>(fit.tokens));
  message.setSkippedTokens(static_cast<uint64_t>(fit.skipped_tokens));
  message.setSeed(fit.seed);
  auto files = message.initFiles(list_size(fit.files.size()));
  for (unsigned i = 0; i < files.size(); ++i) {
    files[i].setName(text(fit.files[i].name));
    files[i].setSha256(text(fit.files[i].sha256));
  }
  auto kinds = message.initHeldOutKinds(list_size(fit.held_out_kinds.size()));
  for (unsigned i = 0; i < kinds.size(); ++i) write_kind(kinds[i], fit.held_out_kinds[i]);
}

void write_context(schema::EvidenceContext::Builder message, const EvidenceContext& context) {
  message.setTokens(static_cast<uint64_t>(context.tokens));
  message.setN(static_cast<uint64_t>(context.n));
  message.setNllSelf(context.nll.self);
  message.setNllTransferred(context.nll.transferred);
  message.setNllOtherText(context.nll.other_text);
  message.setNllTextOnly(context.nll.text_only);
  message.setNllNone(context.nll.none);
  message.setConsistency(context.consistency);
}

void write_evidence(schema::Evidence::Builder message, const ProjectorEvidence& evidence) {
  message.setSink(static_cast<uint64_t>(evidence.sink));
  message.setReread(static_cast<uint64_t>(evidence.reread));
  message.setContinued(static_cast<uint64_t>(evidence.continued));
  auto contexts = message.initContexts(list_size(evidence.contexts.size()));
  for (unsigned i = 0; i < contexts.size(); ++i) write_context(contexts[i], evidence.contexts[i]);
}

// ---- Reading ----

std::string to_string(capnp::Text::Reader value) { return {value.begin(), value.size()}; }

Status read_count(uint64_t value, const char* name, int64_t& count) {
  if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
    return corrupt(fmt::format("{} = {}", name, value));
  count = static_cast<int64_t>(value);
  return {};
}

Status read_side(schema::ProjectorSide::Reader message, ProjectorSide& side) {
  side.model = to_string(message.getModel());
  side.vocabulary_hash = to_string(message.getVocabularyHash());
  const auto kv = message.getKv();
  SUTURE_ASSIGN_OR_RETURN(side.kv,
                          decode_stream_info(std::as_bytes(std::span(kv.begin(), kv.size()))));
  return {};
}

Status read_map(schema::LinearMap::Reader message, int32_t source_layers, LinearMap& map) {
  const auto window = message.getWindow();
  if (window.size() > static_cast<uint32_t>(source_layers))
    return corrupt(fmt::format("a window of {} of {} source layers", window.size(), source_layers));
  for (const uint32_t layer : window) map.window.push_back(static_cast<int32_t>(layer));
  map.dtype = static_cast<DType>(message.getDtype());
  map.ridge = message.getRidge();
  map.r2 = message.getR2();
  map.mse = message.getMse();
  return {};
}

Status read_fit(schema::FitParameters::Reader message, FitParameters& fit) {
  SUTURE_RETURN_IF_ERROR(read_count(message.getTexts(), "texts", fit.texts));
  SUTURE_RETURN_IF_ERROR(
      read_count(message.getHeldOutTexts(), "held-out texts", fit.held_out_texts));
  SUTURE_RETURN_IF_ERROR(read_count(message.getTokens(), "tokens", fit.tokens));
  SUTURE_RETURN_IF_ERROR(
      read_count(message.getSkippedTokens(), "skipped tokens", fit.skipped_tokens));
  fit.seed = message.getSeed();
  for (const auto file : message.getFiles())
    fit.files.push_back({to_string(file.getName()), to_string(file.getSha256())});
  for (const auto part : message.getHeldOutKinds()) {
    HeldOutKind& kind = fit.held_out_kinds.emplace_back();
    kind.kind = to_string(part.getKind());
    SUTURE_RETURN_IF_ERROR(read_count(part.getTexts(), "texts of a kind", kind.texts));
    SUTURE_RETURN_IF_ERROR(read_count(part.getTokens(), "tokens of a kind", kind.tokens));
    kind.key_r2 = part.getKeyR2();
    kind.key_mse = part.getKeyMse();
    kind.value_r2 = part.getValueR2();
    kind.value_mse = part.getValueMse();
  }
  return {};
}

Status read_evidence(schema::Evidence::Reader message, ProjectorEvidence& evidence) {
  SUTURE_RETURN_IF_ERROR(read_count(message.getSink(), "sink", evidence.sink));
  SUTURE_RETURN_IF_ERROR(read_count(message.getReread(), "reread", evidence.reread));
  SUTURE_RETURN_IF_ERROR(read_count(message.getContinued(), "continued", evidence.continued));
  for (const auto part : message.getContexts()) {
    EvidenceContext context;
    SUTURE_RETURN_IF_ERROR(read_count(part.getTokens(), "context tokens", context.tokens));
    SUTURE_RETURN_IF_ERROR(read_count(part.getN(), "context texts", context.n));
    context.nll = {part.getNllSelf(), part.getNllTransferred(), part.getNllOtherText(),
                   part.getNllTextOnly(), part.getNllNone()};
    context.consistency = part.getConsistency();
    evidence.contexts.push_back(context);
  }
  return {};
}

// May throw kj::Exception.
Result<ProjectorHeader> read_message(schema::Projector::Reader message) {
  ProjectorHeader header;
  Projector& projector = header.projector;
  SUTURE_RETURN_IF_ERROR(read_side(message.getSource(), projector.source));
  SUTURE_RETURN_IF_ERROR(read_side(message.getTarget(), projector.target));
  const int32_t source_layers = projector.source.n_layers();
  for (const auto part : message.getLayers()) {
    LayerProjection layer;
    SUTURE_RETURN_IF_ERROR(read_map(part.getKey(), source_layers, layer.key));
    SUTURE_RETURN_IF_ERROR(read_map(part.getValue(), source_layers, layer.value));
    projector.layers.push_back(std::move(layer));
  }
  SUTURE_RETURN_IF_ERROR(read_fit(message.getFit(), projector.fit));
  if (message.hasEvidence())
    SUTURE_RETURN_IF_ERROR(read_evidence(message.getEvidence(), projector.evidence.emplace()));
  projector.own_first_layer = message.getOwnFirstLayer();
  header.data_sha256 = to_string(message.getDataSha256());
  return header;
}

}  // namespace

std::vector<std::byte> encode_projector_header(const Projector& projector,
                                               const std::string& data_sha256) {
  capnp::MallocMessageBuilder builder;
  auto message = builder.initRoot<schema::Projector>();
  write_side(message.initSource(), projector.source);
  write_side(message.initTarget(), projector.target);
  auto layers = message.initLayers(list_size(projector.layers.size()));
  for (unsigned i = 0; i < layers.size(); ++i) {
    write_map(layers[i].initKey(), projector.layers[i].key);
    write_map(layers[i].initValue(), projector.layers[i].value);
  }
  write_fit(message.initFit(), projector.fit);
  if (projector.evidence) write_evidence(message.initEvidence(), *projector.evidence);
  message.setDataSha256(text(data_sha256));
  message.setOwnFirstLayer(projector.own_first_layer);
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(builder);
  const auto bytes = std::as_bytes(std::span(words.asBytes().begin(), words.asBytes().size()));
  return {bytes.begin(), bytes.end()};
}

Result<ProjectorHeader> decode_projector_header(std::span<const std::byte> bytes) {
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0)
    return corrupt(fmt::format("a message of {} bytes", bytes.size()));
  // A copy: the bytes need not be aligned to words.
  kj::Array<capnp::word> words = kj::heapArray<capnp::word>(bytes.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), bytes.data(), bytes.size());
  // Every part is read once, so a sound message stays below this; one whose pointers overlap, to
  // make much out of little, does not.
  capnp::ReaderOptions options;
  options.traversalLimitInWords = words.size() + 64;
  options.nestingLimit = 8;
  try {
    capnp::FlatArrayMessageReader reader(words, options);
    return read_message(reader.getRoot<schema::Projector>());
  } catch (const kj::Exception& error) {
    return corrupt(fmt::format("not a message: {}", error.getDescription().cStr()));
  }
}

}  // namespace suture

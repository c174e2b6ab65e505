#include "launcher/attention_json.h"

#include <stdexcept>
#include <string>

namespace suture {
namespace {

nlohmann::json topic_json(const AttentionShares& shares, size_t topic) {
  nlohmann::json layers = nlohmann::json::array();
  nlohmann::json mean = nlohmann::json::array();
  for (size_t layer = 0; layer < static_cast<size_t>(shares.n_layers); ++layer) {
    nlohmann::json& row = layers.emplace_back(nlohmann::json::array());
    for (size_t reader = 0; reader < shares.readers.size(); ++reader)
      row.push_back(shares.share(topic, layer, reader));
  }
  for (size_t reader = 0; reader < shares.readers.size(); ++reader)
    mean.push_back(shares.mean(topic, reader));
  return {{"layers", std::move(layers)}, {"mean", std::move(mean)}};
}

void read_topic(const nlohmann::json& json, AttentionShares& shares) {
  const nlohmann::json& layers = json.at("layers");
  if (std::ssize(layers) != shares.n_layers) throw std::out_of_range("'layers' differ in number");
  for (const nlohmann::json& row : layers) {
    if (row.size() != shares.readers.size()) throw std::out_of_range("a layer lacks a model");
    for (const nlohmann::json& share : row)
      shares.bits.push_back(std::bit_cast<uint32_t>(share.get<float>()));
  }
}

}  // namespace

nlohmann::json to_json(const AttentionShares& shares) {
  nlohmann::json json = topic_json(shares, 0);
  json["tokens"] = shares.tokens;
  json["models"] = shares.readers;
  json["keywords"] = nlohmann::json::array();
  for (size_t k = 0; k < shares.keywords.size(); ++k) {
    nlohmann::json& keyword = json["keywords"].emplace_back(topic_json(shares, 1 + k));
    keyword["keyword"] = shares.keywords[k];
  }
  return json;
}

AttentionShares attention_from_json(const nlohmann::json& json) {
  AttentionShares shares;
  json.at("tokens").get_to(shares.tokens);
  json.at("models").get_to(shares.readers);
  shares.n_layers = std::ssize(json.at("layers"));
  read_topic(json, shares);
  for (const nlohmann::json& keyword : json.at("keywords")) {
    shares.keywords.push_back(keyword.at("keyword").get<std::string>());
    read_topic(keyword, shares);
  }
  if (!check(shares)) throw std::out_of_range("shares of attention without a place");
  return shares;
}

}  // namespace suture

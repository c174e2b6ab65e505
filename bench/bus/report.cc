#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "bench/bus/figures.h"

namespace suture::bus_bench {
namespace {

std::string line(const std::string& name, const Spread& ns) {
  return fmt::format("  {:<48} {:>9.3f} {:>9.3f}\n", name, ns.p50 / 1000, ns.p99 / 1000);
}

void add(nlohmann::json& json, const std::string& name, const Spread& ns) {
  json[name + "_ns_p50"] = ns.p50;
  json[name + "_ns_p99"] = ns.p99;
}

}  // namespace

std::string table(const Figures& figures) {
  std::string text =
      fmt::format("Owner on core {}, reader on core {}; reading the clock takes {:.0f} ns.\n\n",
                  figures.cores[0], figures.cores[1], figures.clock_ns) +
      fmt::format("  {:<48} {:>9} {:>9}\n", "us", "p50", "p99") +
      line("machine: cache line to the other core", figures.cache_line_ns) +
      line("machine: futex wake to sleeper running", figures.futex_ns) +
      line("publish to visible, reader spins", figures.visible_spinning_ns) +
      line("publish to visible, reader sleeps", figures.visible_sleeping_ns) +
      line("publish, nobody waits", figures.publish_ns) +
      line("publish, a reader sleeps", figures.publish_waiting_ns) +
      line("attach and detach", figures.attach_ns) +
      line("lease: take and release", figures.lease_ns) +
      line("map a slab, once for each owner", figures.map_ns) +
      fmt::format("\n  {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "GB/s each",
                  "read in", "read", "copy from", "memcpy", "memcpy", "of memcpy", "of memcpy") +
      fmt::format("  {:<10} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}\n", "readers", "place",
                  "private", "the bus", "shared", "private", "shared", "private");
  for (const ThroughputFigures& row : figures.throughput)
    text +=
        fmt::format("  {:<10} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>9.2f} {:>8.0f} % {:>8.0f} %\n",
                    row.readers, row.read_in_place, row.read_private, row.copy, row.memcpy_shared,
                    row.memcpy, 100 * row.copy / row.memcpy_shared, 100 * row.copy / row.memcpy);
  return text;
}

std::string json(const Figures& figures) {
  nlohmann::json json = {{"cores", figures.cores}, {"clock_ns", figures.clock_ns}};
  add(json, "cache_line", figures.cache_line_ns);
  add(json, "futex_wake", figures.futex_ns);
  add(json, "visible_spinning", figures.visible_spinning_ns);
  add(json, "visible_sleeping", figures.visible_sleeping_ns);
  add(json, "publish", figures.publish_ns);
  add(json, "publish_waiting", figures.publish_waiting_ns);
  add(json, "attach", figures.attach_ns);
  add(json, "lease", figures.lease_ns);
  add(json, "map", figures.map_ns);
  for (const ThroughputFigures& row : figures.throughput)
    json["throughput"].push_back({{"readers", row.readers},
                                  {"read_in_place_gb_s", row.read_in_place},
                                  {"read_private_gb_s", row.read_private},
                                  {"copy_gb_s", row.copy},
                                  {"memcpy_shared_gb_s", row.memcpy_shared},
                                  {"memcpy_gb_s", row.memcpy},
                                  {"copy_of_memcpy", row.copy / row.memcpy}});
  return json.dump();
}

}  // namespace suture::bus_bench

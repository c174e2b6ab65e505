# The immutable part of a K/V stream, sent once when the stream is opened (bus/stream_info.h).
# New fields are added at higher ordinals only.
@0xc4f3b7a51d0e9b62;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("suture::schema");

struct KvShape {
  nLayers @0 :UInt32;
  nKvHeads @1 :UInt32;
  headDim @2 :UInt32;
  dtype @3 :UInt8;              # suture::DType
}

# Of builds before RopeSchedule.
struct RopeEpoch {
  firstToken @0 :UInt64;
  frequencies @1 :List(Float32);
  attentionFactor @2 :Float32;
}

struct RopeSchedule {             # kernels/rope_schedule.h
  scaling @0 :UInt8;              # suture::RopeScaling
  theta @1 :Float32;
  factor @2 :Float32;
  originalPositions @3 :UInt64;
  attentionFactor @4 :Float32;    # 0 = what the kind prescribes
  betaFast @5 :Float32;
  betaSlow @6 :Float32;
  lowFreqFactor @7 :Float32;
  highFreqFactor @8 :Float32;
  shortFactors @9 :List(Float32); # headDim / 2, or empty
  longFactors @10 :List(Float32); # headDim / 2, or empty
  fixedLength @11 :UInt64;        # positions; 0 = off
}

enum PositionRule {
  prefix @0;
  aligned @1;
}

enum RopePairing {
  halves @0;
  neighbours @1;
}

struct StreamInfo {
  modelFingerprint @0 :Text;
  shape @1 :KvShape;
  ropePairing @2 :RopePairing;
  obsoleteRopeEpochs @3 :List(RopeEpoch);  # neither written nor read
  tokenIds @4 :List(Int32);
  textOffsets @5 :List(UInt64);   # end of each token in the text, bytes; or empty
  positionRule @6 :PositionRule;
  lag @7 :UInt64;                 # tokens
  ropes @8 :List(RopeSchedule);
  layerRopes @9 :List(Int32);     # nLayers indices into ropes, or empty: the first for all
}

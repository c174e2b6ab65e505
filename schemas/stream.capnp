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

struct RopeEpoch {
  firstToken @0 :UInt64;
  frequencies @1 :List(Float32);  # headDim / 2, radians per position
  attentionFactor @2 :Float32;
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
  ropeEpochs @3 :List(RopeEpoch);
  tokenIds @4 :List(Int32);
  textOffsets @5 :List(UInt64);   # end of each token in the text, bytes; or empty
  positionRule @6 :PositionRule;
  lag @7 :UInt64;                 # tokens
}

# Header of a projector file: everything but the numbers of the maps (fusion/projector_file.h).
# New fields are added at higher ordinals only.
@0xb8d5a1c67e2f4093;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("suture::schema");

struct ProjectorSide {
  model @0 :Text;
  vocabularyHash @1 :Text;
  kv @2 :Data;                    # a message StreamInfo (stream.capnp), of no sequence
}

# The numbers follow the header: of each layer those of key, then of value; of each map weights
# [out][in], mean [in], gamma [out], beta [out], each array at a multiple of 64 bytes.
struct LinearMap {
  window @0 :List(UInt32);        # source layers, rising
  dtype @1 :UInt8;                # suture::DType
  ridge @2 :Float64;
  r2 @3 :Float64;
  mse @4 :Float64;
}

struct LayerProjection {
  key @0 :LinearMap;
  value @1 :LinearMap;
}

struct FitFile {
  name @0 :Text;
  sha256 @1 :Text;
}

struct HeldOutKind {
  kind @0 :Text;
  texts @1 :UInt64;
  tokens @2 :UInt64;
  keyR2 @3 :Float64;
  keyMse @4 :Float64;
  valueR2 @5 :Float64;
  valueMse @6 :Float64;
}

struct FitParameters {
  texts @0 :UInt64;
  heldOutTexts @1 :UInt64;
  tokens @2 :UInt64;
  skippedTokens @3 :UInt64;
  seed @4 :UInt64;
  files @5 :List(FitFile);
  heldOutKinds @6 :List(HeldOutKind);
}

struct EvidenceContext {
  tokens @0 :UInt64;
  n @1 :UInt64;
  nllSelf @2 :Float64;
  nllTransferred @3 :Float64;
  nllOtherText @4 :Float64;
  nllTextOnly @5 :Float64;
  nllNone @6 :Float64;
  consistency @7 :Float64;
}

struct Evidence {
  sink @0 :UInt64;
  reread @1 :UInt64;
  continued @2 :UInt64;
  contexts @3 :List(EvidenceContext);
}

struct Projector {
  source @0 :ProjectorSide;
  target @1 :ProjectorSide;
  layers @2 :List(LayerProjection);  # one of each layer of the target
  fit @3 :FitParameters;
  evidence @4 :Evidence;             # absent: never measured
  dataSha256 @5 :Text;               # of all numbers, with the zeros between them
  ownFirstLayer @6 :Bool;            # maps take K0 (or V) of the target's layer 0 behind the window's
}

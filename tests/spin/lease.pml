/* Lease, close, reopen, reuse: Slab::open_stream, fork_stream, close_stream and reclaim,
 * check_stream, Lease::take and its release, SlabView::attach, Control::drop_leases_of and
 * mark_owner_lost.
 *
 * One owner opens STREAMS streams, fresh ones or forks, in SLOTS stream slots and two blocks, and
 * closes them in any order. READERS readers attach to any stream announced so far, gone or not, read
 * its rows and let go. Owner and reader 0 may be killed between any two steps. The last reader is
 * reader 0 started again under a new peer id, before or after the broker has noticed. The broker
 * drops the leases of the dead one by one.
 *
 * Checked: no block is reused while a live reader uses it; what is returned as data is of the stream
 * asked for, and was written; the generation does not change under a lease; in the end, with
 * everybody gone or finished, every block is free.
 *
 * Abstracted: seq_cst accesses are interleavings; a stream has one block, whose content is the number
 * of the stream that wrote it; generations are counted for the slab, as in the code, and do not
 * wrap; there are two lease slots for a stream instead of 64; relaxed stores that the store of the
 * state publishes are one step. Waiting is left to doorbell.pml.
 */
#ifndef STREAMS
#define STREAMS 2
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef READERS
#define READERS 2
#endif
#define SUCCESSOR (READERS - 1)

mtype = { free, open, closing, lost };

/* Shared memory. */
typedef Slot {
  byte generation;
  mtype state = free;
  bit block;       /* the block table */
  bool committed;
  byte leases[2];  /* peer ids; 0: free */
}
Slot slots[SLOTS];
byte content[2];   /* the payload: which stream wrote the block */

/* What the owner has told the readers: where streams 1 .. announced are. */
byte announced;
bit slot_of[STREAMS + 1];
byte writer_of[STREAMS + 1];  /* whose rows they show: a fork shows its parent's */

/* The owner's own memory. */
typedef Use {
  bool taken;
  bool deferred;
  bit block;
}
Use use[SLOTS];
byte references[2];

bool owner_killed;
bool reader_killed;   /* number 0 */
bool dropped;         /* its leases, by the broker */
byte n_ended;         /* readers; number 0 when its death has been noticed */
bool uses_block[2 * READERS];  /* by a reader under its lease */

#define used(block) \
  (uses_block[block] || uses_block[2 * SUCCESSOR + block] || (READERS > 2 && uses_block[2 + block]))
#define is_open(slot) (use[slot].taken && !use[slot].deferred)

/* ---------------------------------------------------------------- owner */

inline has_lease() {
  leased = (slots[slot].leases[0] != 0);
  leased = (leased || slots[slot].leases[1] != 0)
}

inline free_stream() {
  d_step {
    slots[slot].state = free;
    references[use[slot].block]--;
    use[slot].taken = false;
    use[slot].deferred = false;
    use[slot].block = 0
  }
}

inline reclaim_slot(number) {
  if
  :: d_step { use[number].deferred -> slot = number };
     has_lease();
     if
     :: leased -> leased = false
     :: else -> free_stream()
     fi
  :: else
  fi
}

inline reclaim() {
  reclaim_slot(0);
#if SLOTS > 1
  reclaim_slot(1)
#endif
}

/* A block without references becomes the stream's, or it shares its parent's. */
inline take_block(parent) {
  use[slot].taken = true;
  use[slot].block = block;
#ifdef MUTATE_FORK_WITHOUT_REFERENCE
  if :: parent == 0 -> references[block]++ :: else fi;
#else
  references[block]++;
#endif
  slot_of[announced + 1] = slot;
  writer_of[announced + 1] = (parent == 0 -> announced + 1 : writer_of[parent]);
  forked = (parent != 0);
  assert(forked || !used(block))
}

inline publish() {
#ifdef MUTATE_GENERATION_AFTER_STATE
  d_step { slots[slot].block = block; slots[slot].committed = forked };
  slots[slot].state = open;
  slots[slot].generation = announced + 1;
#else
  slots[slot].generation = announced + 1;
  d_step { slots[slot].block = block; slots[slot].committed = forked };
  slots[slot].state = open;
#endif
  announced++;
  if
  :: !forked ->
#ifdef MUTATE_COMMIT_BEFORE_ROWS
     slots[slot].committed = true;
     content[block] = announced
#else
     content[block] = announced;
     slots[slot].committed = true
#endif
  :: else -> forked = false
  fi
}

/* The first free slot; any free block. */
inline open_stream() {
  reclaim();
  slot = (use[0].taken -> SLOTS - 1 : 0);
  if
  :: !use[slot].taken && references[0] == 0 ->
     d_step { block = 0; take_block(0) }; publish()
  :: !use[slot].taken && references[1] == 0 ->
     d_step { block = 1; take_block(0) }; publish()
#if SLOTS > 1
  :: !use[slot].taken && is_open(1 - slot) ->
     d_step { block = use[1 - slot].block; take_block(slots[1 - slot].generation) }; publish()
#endif
  :: use[slot].taken || (references[0] != 0 && references[1] != 0)  /* kBusy, kOutOfMemory */
  fi;
  d_step { slot = 0; block = 0 }
}

inline close_stream(number) {
  slot = number;
#ifdef MUTATE_SCAN_BEFORE_CLOSE
  has_lease();
  slots[slot].state = closing;
#else
  slots[slot].state = closing;
#ifndef MUTATE_NO_SCAN
  has_lease();
#endif
#endif
  if
  :: d_step { leased -> use[slot].deferred = true; leased = false }
  :: else -> free_stream()
  fi;
  slot = 0
}

active proctype owner() {
  bit slot, block;
  bool leased, forked;
  {
    do
    :: announced < STREAMS -> open_stream()
    :: is_open(0) -> close_stream(0)
#if SLOTS > 1
    :: is_open(1) -> close_stream(1)
#endif
    :: announced == STREAMS && n_ended == READERS && !is_open(0) && !is_open(SLOTS - 1) -> break
    od;
    reclaim();
    assert(references[0] == 0 && references[1] == 0)
  } unless { owner_killed }
}

/* ---------------------------------------------------------------- readers */

/* check_stream: the state first. */
inline check_stream() {
#ifdef MUTATE_GENERATION_READ_FIRST
  good = (slots[slot].generation == stream);
  good = (good && slots[slot].state == open)
#else
  good = (slots[slot].state == open);
  good = (good && slots[slot].generation == stream)
#endif
}

inline take_lease() {
  if
  :: d_step { slots[slot].leases[0] == 0 -> slots[slot].leases[0] = peer }
  :: else ->
     if
     :: d_step { slots[slot].leases[1] == 0 -> slots[slot].leases[1] = peer; lease = 1 }
     :: else -> goto finished  /* kBusy */
     fi
  fi
}

inline release_lease() {
  d_step {
    if
    :: slots[slot].leases[lease] == peer -> slots[slot].leases[lease] = 0
    :: else
    fi;
    uses_block[2 * me + block] = false
  }
}

/* StreamReader::wait, and the rows. It says kStaleGeneration where that is asserted. */
inline read_rows() {
  if
  :: slots[slot].committed ->
#ifndef MUTATE_NO_LEASE
     assert(slots[slot].generation == stream);
#endif
     assert(content[block] == writer_of[stream])
  :: else
  fi
}

inline attach_and_read() {
  check_stream();
  if :: good :: else -> goto finished fi;
#ifndef MUTATE_NO_LEASE
  take_lease();
#endif
#ifndef MUTATE_NO_CHECK_UNDER_LEASE
  check_stream();
#endif
  if
  :: good ->
     d_step { block = slots[slot].block; uses_block[2 * me + block] = true };  /* copy_block_table */
#ifdef MUTATE_RELEASE_BEFORE_READ
     release_lease();
#endif
     read_rows()
  :: else
  fi;
  release_lease()
}

proctype reader(byte me; byte peer) {
  byte stream;
  bit slot, lease, block;
  bool good;
end:
  me != SUCCESSOR || reader_killed;  /* whether the broker has noticed or not */
  {
    atomic {
      if
      :: announced >= 1 -> stream = 1
      :: announced >= 2 -> stream = 2
#if STREAMS > 2
      :: announced >= 3 -> stream = 3
#endif
      :: announced == 0 && owner_killed -> goto finished
      fi;
      slot = slot_of[stream]
    };
    attach_and_read();
finished:
    if
    :: me != 0 -> n_ended++
    :: else
    fi
  } unless { me == 0 && reader_killed };
  atomic { stream = 0; slot = 0; lease = 0; block = 0; good = false }
}

/* ---------------------------------------------------------------- deaths */

#ifndef OWNER_LIVES
active proctype owner_killer() {
  owner_killed = true
}
#endif

active proctype reader_killer() {
  d_step { reader_killed = true; uses_block[0] = false; uses_block[1] = false }
}

#ifdef MUTATE_DROP_BEFORE_DEATH
/* When the connection ends, or when a stopped process is found. */
bool connection_closed;
active proctype hang_up() { connection_closed = true }
#define reader_is_gone (reader_killed || connection_closed)
#else
#define reader_is_gone reader_killed
#endif

inline drop_lease_of(peer, slot, lease) {
  if
  :: d_step { slots[slot].leases[lease] == peer -> slots[slot].leases[lease] = 0 }
  :: else
  fi
}

inline drop_leases_of(peer) {
  drop_lease_of(peer, 0, 0);
  drop_lease_of(peer, 0, 1);
#if SLOTS > 1
  drop_lease_of(peer, 1, 0);
  drop_lease_of(peer, 1, 1)
#endif
}

inline mark_lost(slot) {
  if
  :: d_step { slots[slot].state == open -> slots[slot].state = lost }
  :: else
  fi
}

active proctype broker() {
  bool marked;
end:
  do
  :: reader_is_gone && !dropped ->
#ifndef MUTATE_NO_DROP
     drop_leases_of(1);
#endif
     d_step { dropped = true; n_ended++ }
  :: owner_killed && !marked ->  /* mark_owner_lost */
     mark_lost(0);
#if SLOTS > 1
     mark_lost(1);
#endif
     marked = true
  od
}

#ifdef MUTATE_PEER_ID_REUSED
#define SUCCESSOR_ID 1
#else
#define SUCCESSOR_ID 3
#endif

init {
  atomic {
    run reader(0, 1);
#if READERS > 2
    run reader(1, 2);
#endif
    run reader(SUCCESSOR, SUCCESSOR_ID)
  }
}

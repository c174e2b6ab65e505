/* Publish and wait: StreamWriter::commit and close, Control::mark_owner_lost, StreamReader::wait,
 * wait_for_doorbell.
 *
 * One owner publishes TOKENS tokens in LAYERS layers and closes, at the end or earlier. Two readers
 * hold a lease and wait for a number of tokens of some layer. The owner and reader 0 may be killed
 * between any two steps; the broker notices the owner's death some time later.
 *
 * Checked: every waiter ends (no invalid end state); wait() returns only rows that were
 * written; with an honest owner it never comes to its last error, a stream that went back.
 *
 * Abstracted: seq_cst accesses are interleavings, and so is committed's release/acquire pair: that
 * the rows are visible before the count is what this pair is for, and is not shown here. The spin
 * phase is left out: it makes the same test before the waiter registers, and changes nothing.
 */
#include "doorbell.inc"

#ifndef LAYERS
#define LAYERS 2
#endif
#ifndef TOKENS
#define TOKENS 1
#endif

mtype = { open, closing, lost };

mtype state = open;
byte rows[LAYERS];       /* written by the owner */
byte committed[LAYERS];
Doorbell doorbell;

bool owner_killed;
bool reader_killed;  /* number 0 */
bool readers_ended[2];

inline commit(layer) {
#if defined(MUTATE_RING_BEFORE_COMMIT)
  rows[layer]++;
  ring_doorbell(doorbell);
  committed[layer] = rows[layer]
#elif defined(MUTATE_COMMIT_BEFORE_ROWS)
  committed[layer] = rows[layer] + 1;
  rows[layer]++;
  ring_doorbell(doorbell)
#elif defined(MUTATE_WAITERS_READ_EARLY)
  waiting = (doorbell.waiters != 0);  /* as a weaker order would let it happen */
  rows[layer]++;
  committed[layer] = rows[layer];
  doorbell.bell++;
  if
  :: d_step { waiting -> waiting = false }; futex_wake(doorbell)
  :: else
  fi
#else
  rows[layer]++;
  committed[layer] = rows[layer];
#ifdef MUTATE_COMMITTED_GOES_BACK
  committed[layer] = 0;
  committed[layer] = rows[layer];
#endif
  ring_doorbell(doorbell)
#endif
}

/* All rows, then it rests until everybody has them: what wakes the readers must be the commits. Or
 * it closes early. */
active proctype owner() {
  byte layer;
  bool waiting;
  {
    do
    :: rows[LAYERS - 1] < TOKENS ->
       do
       :: layer < LAYERS -> commit(layer); layer++
       :: else -> layer = 0; break
       od
    :: rows[LAYERS - 1] == TOKENS && readers_ended[0] && readers_ended[1] -> break
    :: rows[LAYERS - 1] < TOKENS -> break
    od;
    state = closing;
#ifndef MUTATE_CLOSE_DOES_NOT_RING
    ring_doorbell(doorbell)
#endif
  } unless { owner_killed }
}

/* mark_owner_lost, only once the process has ended: its pidfd says so. */
active proctype broker() {
end:
  owner_killed;
#if defined(MUTATE_LOST_DOES_NOT_RING)
  if :: d_step { state == open -> state = lost } :: else fi
#elif defined(MUTATE_LOST_RINGS_OPEN_STREAMS_ONLY)
  if :: d_step { state == open -> state = lost }; ring_doorbell(doorbell) :: else fi
#elif defined(MUTATE_RING_BEFORE_LOST)
  ring_doorbell(doorbell);
  if :: d_step { state == open -> state = lost } :: else fi
#else
  if :: d_step { state == open -> state = lost } :: else fi;
  ring_doorbell(doorbell)
#endif
}

/* committed(layer) >= tokens || !lease_.check(): two loads. */
inline break_if_ready() {
  if
  :: committed[layer] >= tokens -> break
  :: else
  fi;
  if
  :: state != open -> break
  :: else
  fi
}

inline wait_for_doorbell() {
  register_waiter(doorbell);
  do
#if defined(MUTATE_BELL_READ_AFTER_TEST)
  :: break_if_ready();
     seen = doorbell.bell;
     doorbell_sleep(doorbell, me, seen, interruptions)
#elif defined(MUTATE_NO_TEST_BEFORE_SLEEP)
  :: seen = doorbell.bell;
     doorbell_sleep(doorbell, me, seen, interruptions);
     break_if_ready()
#else
  :: seen = doorbell.bell;
     break_if_ready();
     doorbell_sleep(doorbell, me, seen, interruptions)
#endif
  od;
  leave_doorbell(doorbell)
}

/* wait_for_doorbell, then what StreamReader::wait makes of it. */
inline wait_for_rows() {
  wait_for_doorbell();
  seen = 0;
  status = state;
  if
  :: committed[layer] >= tokens -> assert(rows[layer] >= tokens)
  :: else -> assert(status != open)
  fi;
  readers_ended[me] = true
}

proctype reader(byte me; byte layer; byte tokens) {
  byte seen;
  bit interruptions = (me == 0);
  mtype status;
  if
  :: me == 0 -> { wait_for_rows() } unless { reader_killed -> readers_ended[0] = true }
  :: else -> wait_for_rows()
  fi
}

active proctype killer() {
  if :: owner_killed = true :: skip fi
}

active proctype reader_killer() {
  if :: reader_killed = true :: skip fi
}

init {
  atomic {
    if
    :: run reader(0, 0, TOKENS); run reader(1, LAYERS - 1, 1)
    :: run reader(0, LAYERS - 1, 1); run reader(1, 0, TOKENS)
    :: run reader(0, LAYERS - 1, TOKENS); run reader(1, LAYERS - 1, TOKENS)
    fi
  }
}

/* Token ring: TokenRingWriter (open, wait_credit, push, finish), TokenRingReader::wait_next,
 * TokenRing::grant, cancel and mark_producer_lost, and a producer that is killed and replaced.
 *
 * A producer pushes up to TOKENS tokens into a ring of CAPACITY entries. The coordinator reads them,
 * grants credit for WINDOW more, and may cancel (CANCELS); a FOLLOWER only reads, at its own pace.
 * The producer may be killed between any two steps. Its supervisor then starts another one, once,
 * which continues where the ring stands, or marks the producer lost. The coordinator's death ends the
 * whole launch, and is not modelled.
 *
 * A token is its place in the text. Checked: consumers get places 0, 1, 2 ... without a gap or a
 * repetition over a producer's death; they get all that was pushed before "finished" or "lost"; a
 * finished ring has a reason; only a follower that fell a whole capacity behind is told that a token
 * was overwritten; everybody ends (no invalid end state).
 *
 * Abstracted: acquire and release are interleavings; an entry is one step, as its 64-bit word is; laps
 * do not wrap.
 */
#include "doorbell.inc"

#ifndef TOKENS
#define TOKENS 2
#endif
#ifndef CAPACITY
#define CAPACITY 2
#endif
#ifndef WINDOW
#define WINDOW 1
#endif

mtype = { running, finished, lost };

byte entry_token[CAPACITY];
byte entry_lap[CAPACITY];
byte produced;
mtype state = running;
bool reason;
byte credit;
bool cancelled;
Doorbell token_bell, credit_bell;

bool killed;  /* the first producer */
#ifdef MUTATE_HISTORY_FROM_CURSOR
byte cursor_shown;    /* what the coordinator has read */
#endif

/* ---------------------------------------------------------------- producers */

inline push() {
#ifdef MUTATE_PRODUCED_BEFORE_ENTRY
  produced = index + 1;
  d_step { entry_token[index % CAPACITY] = place; entry_lap[index % CAPACITY] = index / CAPACITY };
#else
  d_step { entry_token[index % CAPACITY] = place; entry_lap[index % CAPACITY] = index / CAPACITY };
  produced = index + 1;
#endif
  ring_doorbell(token_bell);
  d_step { index++; place++ }
}

/* has_credit: two loads. */
inline wait_credit() {
  register_waiter(credit_bell);
  do
  :: seen = credit_bell.bell;
     if :: cancelled -> break :: else fi;
     if :: credit > index -> break :: else fi;
     doorbell_sleep(credit_bell, 0, seen, interruptions)
  od;
  seen = 0;
  leave_doorbell(credit_bell)
}

inline generate() {
  do
  :: place < TOKENS ->
     wait_credit();
     if
     :: cancelled -> break
     :: else -> push()
     fi
  :: break  /* the end of the text */
  od;
#ifdef MUTATE_STATE_BEFORE_REASON
  state = finished;
  reason = true;
#else
  reason = true;
  state = finished;
#endif
#ifndef MUTATE_FINISH_DOES_NOT_RING
  ring_doorbell(token_bell)
#endif
}

/* TokenRingWriter::open */
inline open_ring() {
#ifndef MUTATE_OPEN_DOES_NOT_RING
  ring_doorbell(token_bell);
#endif
  if :: state != running -> goto closed :: else fi;
#ifdef MUTATE_STARTS_AGAIN
  skip;
#else
  index = produced;
#endif
  /* The text so far. */
#ifdef MUTATE_HISTORY_FROM_CURSOR
  place = cursor_shown
#else
  place = index
#endif
}

inline produce() {
  open_ring();
  generate();
closed:
  skip
}

proctype producer(bool first) {
  byte index, place, seen;
  bit interruptions;
  { produce() } unless { first && killed }
}

#ifdef MUTATE_RESTART_BEFORE_DEATH
/* Not heard of for a while, or stopped. */
#define producer_is_gone true
#else
#define producer_is_gone killed
#endif

active proctype supervisor() {
end:
  producer_is_gone;
  if
  :: run producer(false)
  :: if  /* mark_producer_lost */
     :: d_step { state == running -> state = lost }
     :: else
     fi;
#ifndef MUTATE_LOST_DOES_NOT_RING
     ring_doorbell(token_bell)
#endif
  fi
}

#ifndef PRODUCER_LIVES
active proctype killer() {
  if :: killed = true :: skip fi
}
#endif

/* ---------------------------------------------------------------- consumers */

inline wait_token() {
  register_waiter(token_bell);
  do
  :: seen = token_bell.bell;
     if :: produced > cursor -> break :: else fi;
     if :: state != running -> break :: else fi;
     doorbell_sleep(token_bell, me, seen, interruptions)
  od;
  seen = 0;
  leave_doorbell(token_bell)
}

/* try_next: the state, then produced, then the entry. */
inline try_next() {
#ifdef MUTATE_PRODUCED_READ_FIRST
  until = produced;
  now = state;
#else
  now = state;
  until = produced;
#endif
  if
  :: until > cursor ->
     d_step {
       if
       :: until - cursor > CAPACITY -> overwritten = true
#ifndef MUTATE_NO_LAP
       :: until - cursor <= CAPACITY && entry_lap[cursor % CAPACITY] != cursor / CAPACITY ->
          overwritten = true
#endif
       :: else -> assert(entry_token[cursor % CAPACITY] == cursor); cursor++
       fi;
       until = 0; now = 0
     }
  :: else ->
     if
     :: now == running -> assert(polled)  /* kTimeout */
     :: else ->
        assert(now != finished || reason);
        assert(cursor == produced);
        break
     fi;
     d_step { until = 0; now = 0 }
  fi
}

inline grant(tokens) {
  if
  :: d_step { credit < tokens -> credit = tokens }
  :: else
  fi;
#ifndef MUTATE_GRANT_DOES_NOT_RING
  ring_doorbell(credit_bell)
#endif
}

active proctype coordinator() {
  byte cursor, seen, until;
  bit interruptions;
  mtype now;
  bool overwritten, polled;
  byte me = 1;
  do
  :: if
     :: !cancelled -> grant(cursor + WINDOW)
#ifdef CANCELS
     :: !cancelled ->
        cancelled = true;
#ifndef MUTATE_CANCEL_DOES_NOT_RING
        ring_doorbell(credit_bell)
#endif
#endif
     :: cancelled
     fi;
     if
     :: wait_token()
     :: !polled -> polled = true  /* asks once without waiting */
     fi;
     try_next();
     assert(!overwritten);
#ifdef MUTATE_HISTORY_FROM_CURSOR
     cursor_shown = cursor
#endif
  od
}

#ifdef FOLLOWER
active proctype follower() {
  byte cursor, seen, until;
  bit interruptions;
  mtype now;
  bool overwritten, polled;
  byte me = 2;
  do
  :: wait_token();
     try_next();
     if
     :: overwritten -> assert(credit - cursor > CAPACITY); break
     :: else
     fi
  od
}
#endif

init { run producer(true) }

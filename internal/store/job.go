package store

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A job is a task in asynq's layout: a hash with asynq's message, and a place in one of its
// queue's lists and sets. Ours are the fields
//
//	worker  whose hands the job is in: TERM/VISIT
//	last    its last Return, in JSON, back when that was (us), and failed how often it failed
//	parked  of a parked job: the name that it is parked under, and its place there
//
// and beside asynq's sets
//
//	due           sorted set: when delayed jobs are due, in us. asynq's scheduled and retry
//	              have whole seconds, rounded up. An entry of a job that has gone is ignored.
//	parked        set: the names by which jobs are parked: see park.go
//	parked:NAME   sorted set: those, by when they became due
//	idle          string: the channel on which idle workers listen; there once one has found
//	              the queue empty

// A Job is one that a worker has in hand.
type Job struct {
	ID, Queue string
	// Hand names the worker and its visit: each pull has another one. A move that names a
	// hand which the job is not in does nothing.
	Hand    string
	Payload []byte
	Headers map[string]string
	// Failures is how often an attempt was to be repeated, or a worker crashed with it.
	Failures int
	// Back is when it went back to its queue last; zero for one that comes for the first time.
	Back time.Time
	// Last is its last Return.
	Last Return
	// Parked says that it was parked until this pull.
	Parked bool
}

// hand is the one of a worker's visit.
func hand(term string, visit int64) string { return term + "/" + strconv.FormatInt(visit, 10) }

// ErrNotInHand means that the job is not in the hand that a move names, or no longer.
var ErrNotInHand = errors.New("the job is not in this worker's hands")

// ErrUndone means that a job cannot end, as its notification waits: a failover has undone its
// end.
var ErrUndone = errors.New("the end of the job's notification is not recorded")

// An Unfit job is none that a worker may have: see Shard.SetAside.
type Unfit struct {
	Job
	Reason MalformedReason
	Why    string
}

// readMessage is Lua: read returns a task's message, or false for none. Of one that is too long
// it is the length, and of a key of another type -1. While a Cluster's slot moves, a task may be
// on another master than what names it: then the script breaks off.
const readMessage = `
local function read(key, longest)
  local length = redis.pcall('HSTRLEN', key, 'msg')
  if type(length) == 'table' then
    if string.find(length.err, 'WRONGTYPE', 1, true) then return -1 end
    length = redis.call('HSTRLEN', key, 'msg')
  end
  if length > longest then return length end
  return redis.call('HGET', key, 'msg')
end
`

// open reads what a script answers of a job: its ID, message as readMessage has it, last,
// failed, back and whether it was parked. It returns why no worker may have it, nil for any other.
func (j *Job) open(reply []any) (unfit *Unfit) {
	text := func(i int) string { s, _ := reply[i].(string); return s }
	j.ID, j.Last = text(0), readReturn(text(2))
	j.Failures, _ = strconv.Atoi(text(3))
	j.Back, j.Parked = micros(text(4)), text(5) != ""
	e, message, reason, why := openMessage(reply[1])
	j.Payload, j.Headers = []byte(e.Payload), e.Headers
	if reason == "" && e.Foreign() {
		reason, why = MalformedForeign, "no push.Producer has put the task on the queue: its type or its options are others"
	}
	if reason == "" {
		return nil
	}
	j.Payload = []byte(message)
	return &Unfit{*j, reason, why}
}

// openMessage reads a task's message as readMessage has it, and returns its text too. The reason
// says why it cannot be read, "" for one that can.
func openMessage(reply any) (e Envelope, text string, reason MalformedReason, why string) {
	if length, unread := reply.(int64); unread && length >= 0 {
		return e, "", MalformedSize, fmt.Sprintf("the message has %d bytes, at most %d are read; it is not kept", length, MaxEnvelopeSize)
	} else if unread {
		return e, "", MalformedEnvelope, "the task's key in Redis is not a hash"
	}
	text, _ = reply.(string)
	e, err := ReadEnvelope(text)
	if err != nil {
		return e, text, MalformedEnvelope, err.Error()
	}
	return e, text, "", ""
}

// perJob is how many values a script answers of a job.
const perJob = 6

// openAll reads what a script answers of jobs in that hand, and of those that are none.
func openAll(queue, hand string, reply []any) (jobs []Job, unfit []Unfit) {
	for i := 0; i+perJob <= len(reply); i += perJob {
		job := Job{Queue: queue, Hand: hand}
		if none := job.open(reply[i : i+perJob]); none != nil {
			unfit = append(unfit, *none)
		} else {
			jobs = append(jobs, job)
		}
	}
	return jobs, unfit
}

// texts are those of a list that Redis has answered.
func texts(list any) (all []string) {
	some, _ := list.([]any)
	for _, one := range some {
		if text, ok := one.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

// micros is that instant, zero for none.
func micros(text string) time.Time {
	if us, _ := strconv.ParseInt(text, 10, 64); us > 0 {
		return time.UnixMicro(us)
	}
	return time.Time{}
}

package store

import (
	"errors"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// TaskType is the type of our jobs on asynq's queues.
const TaskType = "pushpace:notification"

// MaxRetry is asynq's budget for our jobs. asynq archives a job that comes back
// on its last attempt before it asks whether that was a failure, so a deferral
// could lose it: the budget of attempts is ours, and asynq's is never used up.
const MaxRetry = math.MaxInt32 / 2

// An Envelope is what matters of asynq's message around a job, whose definition
// asynq keeps to itself. Our Producer leaves all of asynq's options alone but the
// retries. Its texts are parts of the message.
type Envelope struct {
	Type    string
	Payload string
	Headers map[string]string // nil for none
	// Retry is how often asynq may count a failure.
	Retry                        uint64
	Timeout, Deadline, Retention uint64
	UniqueKey                    string // "" for a task that is not unique
	Group                        string
}

// The numbers of asynq's TaskMessage's fields.
const (
	typeField      = 1
	payloadField   = 2
	idField        = 3
	queueField     = 4
	retryField     = 5
	errorField     = 7
	timeoutField   = 8
	deadlineField  = 9
	uniqueField    = 10
	retentionField = 12
	groupField     = 14
	headersField   = 15
)

// defaultTimeout is the time that asynq gives a job whose producer names none (s).
const defaultTimeout = 1800

// MaxPayload bounds a job's payload, in bytes.
const MaxPayload = 64 << 10

// MaxEnvelopeSize bounds asynq's message, in bytes: a job's payload, and plenty for
// what is around it. What is longer is not read.
const MaxEnvelopeSize = MaxPayload + 64<<10

var errEnvelope = errors.New("asynq cannot read the message")

// ReadEnvelope reads asynq's message as asynq does, and copies nothing. Its error
// is for what asynq could not read either; what comes before is read.
func ReadEnvelope(message string) (Envelope, error) {
	var e Envelope
	if message == "" {
		return e, errEnvelope
	}
	return e, e.read(message)
}

func (e *Envelope) read(message string) error {
	fields := []byte(message) // not copied: nothing writes to it
	for len(fields) > 0 {
		number, kind, n := protowire.ConsumeTag(fields)
		if n < 0 {
			return errEnvelope
		}
		value := fields[n:]
		length := protowire.ConsumeFieldValue(number, kind, value)
		if length < 0 {
			return errEnvelope
		}
		fields = value[length:]
		switch kind {
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			e.number(number, v)
		case protowire.BytesType:
			v, _ := protowire.ConsumeBytes(value)
			end := len(message) - len(fields)
			if !e.text(number, message[end-len(v):end]) {
				return errEnvelope
			}
		}
	}
	return nil
}

func (e *Envelope) number(number protowire.Number, v uint64) {
	switch number {
	case retryField:
		e.Retry = v
	case timeoutField:
		e.Timeout = v
	case deadlineField:
		e.Deadline = v
	case retentionField:
		e.Retention = v
	}
}

// text answers whether asynq can read the field.
func (e *Envelope) text(number protowire.Number, v string) bool {
	switch number {
	case payloadField:
		e.Payload = v
		return true
	case uniqueField:
		e.UniqueKey = v
	case groupField:
		e.Group = v
	case headersField:
		return e.header([]byte(v))
	case typeField:
		e.Type = v
	case idField, queueField, errorField:
	default:
		return true // what asynq does not know either
	}
	return utf8.ValidString(v)
}

// header reads an entry of the headers, and reports whether asynq can read it.
func (e *Envelope) header(entry []byte) bool {
	var texts [2]string // name, value
	for len(entry) > 0 {
		number, kind, n := protowire.ConsumeTag(entry)
		if n < 0 {
			return false
		}
		length := protowire.ConsumeFieldValue(number, kind, entry[n:])
		if length < 0 {
			return false
		}
		if kind == protowire.BytesType && number <= 2 {
			text, _ := protowire.ConsumeString(entry[n:])
			if !utf8.ValidString(text) {
				return false
			}
			texts[number-1] = text
		}
		entry = entry[n+length:]
	}
	if e.Headers == nil {
		e.Headers = make(map[string]string)
	}
	e.Headers[texts[0]] = texts[1]
	return true
}

// Message is asynq's message around a job, with the options of our Producer's, as
// asynq's client writes it. headers may be nil.
func Message(id, queue string, payload []byte, headers map[string]string) []byte {
	b := make([]byte, 0, len(payload)+len(id)+len(queue)+64)
	b = appendText(b, typeField, TaskType)
	b = protowire.AppendBytes(protowire.AppendTag(b, payloadField, protowire.BytesType), payload)
	b = appendText(b, idField, id)
	b = appendText(b, queueField, queue)
	b = appendNumber(b, retryField, MaxRetry)
	b = appendNumber(b, timeoutField, defaultTimeout)
	for name, value := range headers {
		entry := appendText(appendText(nil, 1, name), 2, value)
		b = protowire.AppendBytes(protowire.AppendTag(b, headersField, protowire.BytesType), entry)
	}
	return b
}

func appendText(b []byte, number protowire.Number, text string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), text)
}

func appendNumber(b []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

// Foreign reports whether our Producer does not write such a task: it is of another type,
// or has other options.
func (e *Envelope) Foreign() bool {
	return e.Type != TaskType || e.Retry != MaxRetry || e.Timeout != defaultTimeout || e.Deadline != 0 || e.UniqueKey != "" || e.Retention != 0 || e.Group != ""
}

// Package replica keeps the state of several routers of one fleet equal: requests in flight and learned estimates. Each
// router publishes its events on one ordered log, and each follows that log. Only the log changes the state, so
// replicas at the same position agree bit for bit. docs/howto/llm_d_replicas.md
package replica

import (
	"context"
	"errors"
	"time"
)

// Record is a value of a log, its position, and the time of the log's own clock, which never goes back.
type Record struct {
	Position string
	At       time.Time
	Value    []byte
}

// Log is an ordered log of values with one snapshot. OpenRedis implements it on a stream of Valkey or Redis. A Kafka
// partition with a compacted topic, or a NATS JetStream with a key-value bucket, could implement it.
type Log interface {
	// Append appends values in order. After an error some of them may be in the log.
	Append(ctx context.Context, values [][]byte) error
	// Read returns at most `most` records after a position ("": from the first). If there are none, it waits, and
	// returns none. Errors: ErrTrimmed, ErrLost, or the log is unreachable.
	Read(ctx context.Context, after string, most int, wait time.Duration) ([]Record, error)
	// Before returns whether position a is before b.
	Before(a, b string) bool
	// Save keeps a snapshot of the state at a position, unless a later one is kept.
	Save(ctx context.Context, position string, snapshot []byte) error
	// Load returns the newest snapshot; position "": none.
	Load(ctx context.Context) (position string, snapshot []byte, err error)
	// Trim drops the records before a position.
	Trim(ctx context.Context, before string) error
	Close() error
}

var (
	// ErrTrimmed means that records after the position were dropped. A snapshot contains them.
	ErrTrimmed = errors.New("the log was trimmed beyond this position")
	// ErrLost means that the log lost the record at the position without trimming it. It is returned once; the next
	// read continues after the position.
	ErrLost = errors.New("the log has lost records")
)

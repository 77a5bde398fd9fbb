package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisLog is a stream of Valkey or Redis (7.0 or later), and a key STREAM:snapshot.
type redisLog struct {
	client *redis.Client
	stream string
	doubt  atomic.Bool // the server may have been replaced
}

// OpenRedis returns the log of a stream, such as "takt:fleet", on the server at a URL:
// redis://user:password@host:6379/0. The server may start later.
func OpenRedis(url, stream string) (Log, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, fmt.Errorf("log: url: %w", err)
	}
	if stream == "" {
		return nil, errors.New("log: stream is empty")
	}
	options.MaxRetries = -1 // errors must surface: the server may have restarted
	options.DialerRetries = 1
	quiet.Do(func() { redis.SetLogger(logger{}) })
	options.DialTimeout, options.ReadTimeout, options.WriteTimeout = time.Second, 3*time.Second, 3*time.Second
	return &redisLog{client: redis.NewClient(options), stream: stream}, nil
}

// logger drops the client's line per failed connection: Options.Failed reports an outage once.
type logger struct{}

var quiet sync.Once

func (logger) Printf(_ context.Context, format string, args ...any) {
	if !strings.Contains(format, "failed to dial") {
		log.Printf("redis: "+format, args...)
	}
}

func (l *redisLog) told(err error) error {
	if err != nil {
		l.doubt.Store(true)
	}
	return err
}

func (l *redisLog) Append(ctx context.Context, values [][]byte) error {
	_, err := l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, value := range values {
			p.XAdd(ctx, &redis.XAddArgs{Stream: l.stream, Values: []any{"v", value}})
		}
		return nil
	})
	return l.told(err)
}

func (l *redisLog) Read(ctx context.Context, after string, most int, wait time.Duration) ([]Record, error) {
	if after == "" {
		after = "0-0"
	}
	if l.doubt.Swap(false) && after != "0-0" {
		if err := l.verify(ctx, after); err != nil {
			if !errors.Is(err, ErrLost) {
				l.doubt.Store(true)
			}
			return nil, err
		}
	}
	args := redis.XReadArgs{Streams: []string{l.stream, after}, Count: int64(most), Block: max(wait, time.Millisecond)}
	streams, err := l.client.XRead(ctx, &args).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	} else if err != nil {
		return nil, l.told(err)
	}
	var records []Record
	for _, message := range streams[0].Messages {
		value, _ := message.Values["v"].(string) // a missing value is a malformed record, and counted
		ms, _, _ := strings.Cut(message.ID, "-")
		at, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the log has a record with the invalid id %q", message.ID)
		}
		records = append(records, Record{message.ID, time.UnixMilli(at), []byte(value)})
	}
	if after != "0-0" { // detects records trimmed before they were read
		if err := l.verify(ctx, after); err != nil && !errors.Is(err, ErrLost) { // reported when first seen
			return nil, err
		}
	}
	return records, nil
}

// verify checks that all records after a position are present.
func (l *redisLog) verify(ctx context.Context, position string) error {
	at, err := l.client.XRange(ctx, l.stream, position, position).Result()
	if err != nil {
		return l.told(err)
	}
	if len(at) == 1 {
		return nil
	}
	info, err := l.client.XInfoStream(ctx, l.stream).Result()
	if err != nil && strings.Contains(err.Error(), "no such key") {
		return ErrLost
	} else if err != nil {
		return l.told(err)
	}
	if l.Before(position, info.FirstEntry.ID) && info.EntriesAdded > info.Length {
		return ErrTrimmed
	}
	return ErrLost // nothing was trimmed, or the log ends before the position
}

// Before compares ids of a stream, MS-NUMBER.
func (l *redisLog) Before(a, b string) bool {
	parts := func(id string) (ms, n uint64) {
		first, second, _ := strings.Cut(id, "-")
		ms, _ = strconv.ParseUint(first, 10, 64)
		n, _ = strconv.ParseUint(second, 10, 64)
		return ms, n
	}
	ams, an := parts(a)
	bms, bn := parts(b)
	return ams < bms || ams == bms && an < bn
}

type saved struct {
	Position string          `json:"position"`
	Snapshot json.RawMessage `json:"snapshot"`
}

func (l *redisLog) Save(ctx context.Context, position string, snapshot []byte) error {
	text, err := json.Marshal(saved{position, snapshot})
	if err != nil {
		return err
	}
	key := l.stream + ":snapshot"
	change := func(tx *redis.Tx) error {
		kept, err := tx.Get(ctx, key).Bytes()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		var newest saved
		if json.Unmarshal(kept, &newest) == nil && l.Before(position, newest.Position) {
			return nil
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, key, text, 0).Err() })
		return err
	}
	for range 5 { // another router may be saving
		if err = l.client.Watch(ctx, change, key); !errors.Is(err, redis.TxFailedErr) {
			break
		}
	}
	return l.told(err)
}

func (l *redisLog) Load(ctx context.Context) (string, []byte, error) {
	text, err := l.client.Get(ctx, l.stream+":snapshot").Bytes()
	if errors.Is(err, redis.Nil) {
		return "", nil, nil
	} else if err != nil {
		return "", nil, l.told(err)
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		return "", nil, fmt.Errorf("%s:snapshot: %w", l.stream, err)
	}
	return s.Position, s.Snapshot, nil
}

func (l *redisLog) Trim(ctx context.Context, before string) error {
	return l.told(l.client.XTrimMinID(ctx, l.stream, before).Err())
}

func (l *redisLog) Close() error { return l.client.Close() }

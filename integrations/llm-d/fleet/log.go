package fleet

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"takt"
)

// The log has one JSON object per line: {"at": ns, "events": [{"arrived": {...}}, ...], "placed": {"Request",
// "Instance"}}. A router of takt makes the same placements from the log; TestParity does so in C++.

type wire struct {
	At     takt.Time                    `json:"at"`
	Events []map[string]json.RawMessage `json:"events,omitempty"`
	Placed *takt.Placement              `json:"placed,omitempty"`
}

func nameOf(e takt.Event) string {
	switch e.(type) {
	case takt.Arrived:
		return "arrived"
	case takt.Cancelled:
		return "cancelled"
	case takt.RequestStarted:
		return "started"
	case takt.RequestEnded:
		return "ended"
	case takt.InstanceUp:
		return "up"
	case takt.InstanceDown:
		return "down"
	case takt.InstanceReported:
		return "reported"
	}
	return ""
}

func read[E takt.Event](raw json.RawMessage) (takt.Event, error) {
	var e E
	err := json.Unmarshal(raw, &e)
	return e, err
}

var readers = map[string]func(json.RawMessage) (takt.Event, error){
	"arrived": read[takt.Arrived], "cancelled": read[takt.Cancelled], "started": read[takt.RequestStarted],
	"ended": read[takt.RequestEnded], "up": read[takt.InstanceUp], "down": read[takt.InstanceDown],
	"reported": read[takt.InstanceReported],
}

// MarshalJSON writes an entry as a line of the log.
func (e Entry) MarshalJSON() ([]byte, error) {
	line := wire{At: e.At, Placed: e.Placed}
	for _, event := range e.Events {
		name := nameOf(event)
		if name == "" {
			return nil, fmt.Errorf("an event of type %T has no form in the log", event)
		}
		raw, err := json.Marshal(event)
		if err != nil {
			return nil, err
		}
		line.Events = append(line.Events, map[string]json.RawMessage{name: raw})
	}
	return json.Marshal(line)
}

// UnmarshalJSON reads an entry.
func (e *Entry) UnmarshalJSON(text []byte) error {
	var line wire
	if err := json.Unmarshal(text, &line); err != nil {
		return err
	}
	*e = Entry{At: line.At, Placed: line.Placed}
	for _, told := range line.Events {
		for name, raw := range told {
			reader := readers[name]
			if reader == nil {
				return fmt.Errorf("events: unknown event %q", name)
			}
			event, err := reader(raw)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			e.Events = append(e.Events, event)
		}
	}
	return nil
}

// LogTo returns an Options.Log that writes lines. After the first error it calls failed and writes no more.
func LogTo(to io.Writer, failed func(error)) func(Entry) {
	var mu sync.Mutex
	encoder, broken := json.NewEncoder(to), false
	return func(e Entry) {
		mu.Lock()
		defer mu.Unlock()
		if broken {
			return
		}
		if err := encoder.Encode(e); err != nil {
			broken = true
			failed(err)
		}
	}
}

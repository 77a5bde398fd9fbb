// Package fleet is what takt knows of a fleet of engines behind a router: whose requests are on their way, where they are,
// how long answers and workflows of an agent are, and how fast each engine is. It knows nothing of the router's own types,
// so that it is tested without them.
package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"

	"takt"
)

// Identity is whose call a request is, by the headers of docs/start/python.md: X-Takt-Workflow, X-Takt-Agent,
// X-Takt-Tenant, X-Takt-Deadline (seconds that are left) and X-Takt-Last (1: no call of its workflow follows). Without
// X-Takt-Workflow the trace id of a W3C traceparent is the workflow, else the call is one of its own.
type Identity struct {
	Workflow, Agent, Tenant string
	DeadlineS               float64 // NaN: none
	Last, Alone             bool    // Alone: nothing named a workflow
}

const longest = 256 // bytes of a name as it travels

var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// IdentityOf headers, whose names are in lower case. What cannot be meant is taken as not said, since a header that a
// stranger sent must not fail a request.
func IdentityOf(headers map[string]string) Identity {
	said := func(name string) string {
		value := strings.TrimSpace(headers[name])
		if value == "" || len(value) > longest {
			return ""
		}
		if plain, err := url.PathUnescape(value); err == nil {
			return plain
		}
		return value
	}
	told := Identity{Workflow: said("x-takt-workflow"), Agent: said("x-takt-agent"), Tenant: said("x-takt-tenant"),
		DeadlineS: math.NaN(), Last: strings.TrimSpace(headers["x-takt-last"]) == "1"}
	if s, err := strconv.ParseFloat(strings.TrimSpace(headers["x-takt-deadline"]), 64); err == nil && s >= 0 && s <= 1e9 {
		told.DeadlineS = s
	}
	if told.Workflow == "" {
		trace := traceparent.FindStringSubmatch(strings.TrimSpace(headers["traceparent"]))
		if trace != nil && trace[1] != "ff" && !(trace[1] == "00" && trace[4] != "") &&
			strings.Trim(trace[2], "0") != "" && strings.Trim(trace[3], "0") != "" {
			told.Workflow = trace[2]
		}
	}
	if told.Workflow == "" {
		var own [16]byte
		rand.Read(own[:]) // never fails
		told.Workflow, told.Alone = hex.EncodeToString(own[:]), true
	}
	return told
}

// IDOf a name: the same in every process, and nobody can choose a name that meets another's. The empty name has none.
func IDOf(name string) uint64 {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// What tells this process's calls from those of others.
var process, calls = rand.Text(), new(atomic.Uint64)

// idOfCall is this call's alone. A name may come twice, to one router or to two: clients choose it, and Envoy keeps it when
// it sends a request again, while the first one may still be in flight.
func idOfCall(name string) uint64 {
	return IDOf(name + " " + process + " " + strconv.FormatUint(calls.Add(1), 36))
}

// deadline of a call that arrives now.
func (i *Identity) deadline(now takt.Time) takt.Time {
	if math.IsNaN(i.DeadlineS) {
		return takt.Never
	}
	return now + takt.Time(i.DeadlineS*1e9)
}

// Package fleet is takt's model of the engines behind a router. It knows the requests in flight and their engines, the
// lengths of answers and workflows per agent, and the speed of each engine. It uses none of the router's types, so that
// tests do not need them.
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

// Identity is the identity of a request, from its headers X-Takt-Workflow, X-Takt-Agent, X-Takt-Tenant, X-Takt-Deadline
// (seconds left) and X-Takt-Last (1: the last call of its workflow); see docs/howto/workflow_identity.md. Without
// X-Takt-Workflow the workflow is the session of a coding agent (SessionHeaders), or else the trace id of a W3C
// traceparent. Without all of these, the call is its own workflow.
type Identity struct {
	Workflow, Agent, Tenant string
	DeadlineS               float64 // NaN: none
	Last, Alone             bool    // Alone: no header named a workflow
}

const longest = 256 // longest name in a header [bytes]

// SessionHeaders are the headers in which coding agents and gateways name a session, in order of precedence.
var SessionHeaders = []string{"x-claude-code-session-id", "x-session-affinity", "session-id", "x-session-id"}

// SessionOf returns the session of a coding agent: the value of the first of SessionHeaders with a valid value; empty:
// no session. Names in headers have lower case. A valid value has 1 to 256 printable ASCII characters between blanks.
// Percent signs have no meaning.
func SessionOf(headers map[string]string) string {
	for _, name := range SessionHeaders {
		if value := strings.Trim(headers[name], " \t"); value != "" && len(value) <= longest &&
			!strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c > '~' }) {
			return value
		}
	}
	return ""
}

var traceparent = regexp.MustCompile(`^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$`)

// IdentityOf returns the identity from headers with lower-case names. If sessions is false, SessionHeaders have no
// effect. Invalid values are ignored, because a header from an untrusted client must not fail a request.
func IdentityOf(headers map[string]string, sessions bool) Identity {
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
	if told.Workflow == "" && sessions {
		told.Workflow = SessionOf(headers)
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

// IDOf returns the id of a name: the same in every process, and no client can construct two names with one id. The
// empty name has id 0.
func IDOf(name string) uint64 {
	if name == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(name))
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// process and calls distinguish this process's calls from those of others.
var process, calls = rand.Text(), new(atomic.Uint64)

// idOfCall returns an id that no other call has. Names are not unique: clients choose them, and Envoy keeps the name of
// a retry while the first try may still be in flight.
func idOfCall(name string) uint64 {
	return IDOf(name + " " + process + " " + strconv.FormatUint(calls.Add(1), 36))
}

// deadline returns the deadline of a call that arrives now.
func (i *Identity) deadline(now takt.Time) takt.Time {
	if math.IsNaN(i.DeadlineS) {
		return takt.Never
	}
	return now + takt.Time(i.DeadlineS*1e9)
}

package plugins

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
)

const (
	keyBits    = 13
	keyPeriod  = int64(5 * time.Second)
	hashFactor = 0x9e3779b97f4a7c15
)

// keySlot is written while its turn is odd. It keeps the item alive, so that no other can have its address.
type keySlot struct {
	turn atomic.Uint32
	item unsafe.Pointer // atomic
	key  atomic.Uint64
}

type keyTable [1 << keyBits]keySlot

// keys of items that were compared of late. A request keeps its key among its attributes, a concurrent map, and an item has
// no room for one: this is a cache before it, by the address of the item. An item has one of two slots; what
// is in neither costs a look into the attributes. A table serves for some seconds, so that items that are gone are not kept for ever.
type keys struct {
	table atomic.Pointer[keyTable]
	since atomic.Int64 // when the table was begun [ns]
}

func newKeys() *keys {
	k := &keys{}
	k.table.Store(new(keyTable))
	return k
}

// fresh begins a new table where this one is old.
func (k *keys) fresh(now int64) {
	since := k.since.Load()
	if now-since >= keyPeriod && k.since.CompareAndSwap(since, now) {
		k.table.Store(new(keyTable))
	}
}

// has the key of this item; false where it has another's, or is being written.
func (s *keySlot) has(at unsafe.Pointer) (float64, bool) {
	turn := s.turn.Load()
	there, key := atomic.LoadPointer(&s.item), s.key.Load()
	return math.Float64frombits(key), there == at && turn&1 == 0 && s.turn.Load() == turn
}

// of an item. The second word of an interface is where its value is.
func (t *keyTable) of(item flowcontrol.QueueItemAccessor) float64 {
	at := (*[2]unsafe.Pointer)(unsafe.Pointer(&item))[1]
	home := uint64(uintptr(at)) * hashFactor >> (64 - keyBits)
	if key, ok := t[home].has(at); ok {
		return key
	}
	return t.look(item, at, home)
}

//go:noinline
func (t *keyTable) look(item flowcontrol.QueueItemAccessor, at unsafe.Pointer, home uint64) float64 {
	if key, ok := t[home^1].has(at); ok {
		return key
	}
	s := &t[home]
	if atomic.LoadPointer(&s.item) != nil {
		s = &t[home^1]
	}
	key := keyOf(item)
	if turn := s.turn.Load(); turn&1 == 0 && s.turn.CompareAndSwap(turn, turn+1) {
		atomic.StorePointer(&s.item, at)
		s.key.Store(math.Float64bits(key))
		s.turn.Store(turn + 2)
	}
	return key
}

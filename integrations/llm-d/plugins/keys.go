package plugins

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
)

const (
	keyBits    = 13
	keyWays    = 4 // slots for an item: one cache line
	keyMisses  = 1024
	keyPeriod  = int64(5 * time.Second)
	hashFactor = 0x9e3779b97f4a7c15
)

// keySlot is written once. It keeps the item alive, so that no other can have its address.
type keySlot struct {
	item unsafe.Pointer // atomic; set before the key
	key  float64
}

type keyTable struct {
	slots  [1 << keyBits]keySlot
	misses atomic.Int64 // items that found no slot
}

// taken is the item of a slot whose key is being written.
var taken = unsafe.Pointer(new(int))

// keys caches the keys of recently compared items, by address. A request stores its key among its attributes, which are
// a concurrent map, and an item has no field for one. An item without a slot costs a lookup in the attributes. A table
// is replaced after some seconds, or after too many misses, so that it does not keep items alive forever.
type keys struct {
	table atomic.Pointer[keyTable]
	since atomic.Int64 // start of the table [ns]
}

func newKeys() *keys {
	k := &keys{}
	k.table.Store(new(keyTable))
	return k
}

// fresh replaces the table if it is old.
func (k *keys) fresh(now int64) {
	since := k.since.Load()
	if now-since >= keyPeriod && k.since.CompareAndSwap(since, now) {
		k.table.Store(new(keyTable))
	}
}

// of returns the key of an item. The second word of an interface points to its value.
func (k *keys) of(t *keyTable, item flowcontrol.QueueItemAccessor) float64 {
	at := (*[2]unsafe.Pointer)(unsafe.Pointer(&item))[1]
	home := uint64(uintptr(at)) * hashFactor >> (64 - keyBits)
	if s := &t.slots[home]; atomic.LoadPointer(&s.item) == at {
		return s.key
	}
	return k.look(t, item, at, home)
}

//go:noinline
func (k *keys) look(t *keyTable, item flowcontrol.QueueItemAccessor, at unsafe.Pointer, home uint64) float64 {
	for i := range uint64(keyWays) {
		if s := &t.slots[home^i]; atomic.LoadPointer(&s.item) == at {
			return s.key
		}
	}
	key := keyOf(item)
	for i := range uint64(keyWays) {
		if s := &t.slots[home^i]; atomic.CompareAndSwapPointer(&s.item, nil, taken) {
			s.key = key
			atomic.StorePointer(&s.item, at)
			return key
		}
	}
	if t.misses.Add(1) == keyMisses {
		k.table.CompareAndSwap(t, new(keyTable))
	}
	return key
}

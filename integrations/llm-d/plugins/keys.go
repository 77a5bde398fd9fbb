package plugins

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
)

const (
	keyBits    = 13
	keyWays    = 4 // slots in which an item may be: a line of a processor's cache
	keyMisses  = 1024
	keyPeriod  = int64(5 * time.Second)
	hashFactor = 0x9e3779b97f4a7c15
)

// keySlot is written once. It keeps the item alive, so that no other can have its address.
type keySlot struct {
	item unsafe.Pointer // atomic; it is there when the key is
	key  float64
}

type keyTable struct {
	slots  [1 << keyBits]keySlot
	misses atomic.Int64 // items for which there was no slot
}

// taken is where the item of a slot whose key is being written will be.
var taken = unsafe.Pointer(new(int))

// keys of items that were compared of late. A request keeps its key among its attributes, a concurrent map, and an item has
// no room for one: this is a cache before it, by the address of the item. What has no slot costs a look into the attributes.
// A table serves for some seconds, or until too many items have no slot, so that items that are gone are not kept for ever.
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

// of an item. The second word of an interface is where its value is.
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

package plugins

import (
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/llm-d/llm-d-router/pkg/epp/framework/interface/flowcontrol"
)

const (
	keyBits    = 13
	keyWays    = 4 // slots that an item may have, neighbours of one another
	keyPeriod  = int64(5 * time.Second)
	hashFactor = 0x9e3779b97f4a7c15
)

// words of an interface: its type and where its value is. Two that are equal are one item.
type words [2]unsafe.Pointer

// known key of an item. It keeps the item alive, so that no other can have its address.
type known struct {
	item words
	key  float64
}

type keyTable [1 << keyBits]atomic.Pointer[known]

// keys of items that were compared of late. A request keeps its key among its attributes, a concurrent map, and an item has
// no room for one: this is a cache before it. An entry that is not there, or has given way to another, costs a look
// into the attributes. No entry is older than some seconds, so that items that are gone are not kept.
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

func (k *keys) of(item flowcontrol.QueueItemAccessor) float64 {
	at := *(*words)(unsafe.Pointer(&item))
	table := k.table.Load()
	home := uint64(uintptr(at[1])) * hashFactor >> (64 - keyBits)
	if e := table[home].Load(); e != nil && e.item == at {
		return e.key
	}
	return table.look(item, at, home)
}

// look into the other slots, and the attributes.
func (t *keyTable) look(item flowcontrol.QueueItemAccessor, at words, home uint64) float64 {
	free := home
	for i := range uint64(keyWays) {
		e := t[home^i].Load()
		if e == nil {
			free = home ^ i
			break
		}
		if e.item == at {
			return e.key
		}
	}
	key := keyOf(item)
	t[free].Store(&known{at, key})
	return key
}

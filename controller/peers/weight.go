package peers

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxWeight is what an answer may take in memory when it is decoded, in bytes. An empty item takes two bytes of an answer, and 400 of memory:
// so a limit of an answer's length does not limit its memory. Real EndpointSlices weigh two to eight times their length.
const maxWeight = 128 << 20

var errTooHeavy = fmt.Errorf("the answer has so many items or fields that it would take more than %d MiB of memory", maxWeight>>20)

// Estimates of what one more value takes in memory, by how deep it lies: an item of a list, an element or field of an item, and what these
// have.
const (
	weightItem = 400
	weightPart = 150
	weightLeaf = 24
)

// weighed refuses what would be too heavy, before it is decoded.
type weighed struct{ runtime.Serializer }

// protobufPrefix begins each protobuf answer of an API server.
var protobufPrefix = []byte("k8s\x00")

//nolint:revive // three results, as runtime.Decoder wants
func (w weighed) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	var weight int
	if message, ok := bytes.CutPrefix(data, protobufPrefix); ok {
		weight = weightOfProtobuf(message, 0)
	} else {
		weight = weightOfJSON(data)
	}
	if weight > maxWeight {
		return nil, nil, errTooHeavy
	}
	return w.Serializer.Decode(data, defaults, into)
}

// weightOfJSON goes by the commas, and by how many brackets are open where each stands: two are in a list of items.
func weightOfJSON(data []byte) (weight int) {
	depth, inText := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		case c == ',' && depth <= 2:
			weight += weightItem
		case c == ',' && depth <= 4:
			weight += weightPart
		case c == ',':
			weight += weightLeaf
		}
	}
	return weight
}

// protobufWeights are those of a field by its depth. The outermost message is an envelope; what is inside a leaf is not looked at.
var protobufWeights = [...]int{0, weightItem, weightPart, weightLeaf, weightLeaf}

// weightOfProtobuf counts fields. A field of bytes may be a message or a text: as a message, a text has few fields, or is none.
func weightOfProtobuf(message []byte, depth int) (weight int) {
	for len(message) > 0 && weight <= maxWeight {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return weight
		}
		rest := message[length:]
		if length = protowire.ConsumeFieldValue(number, kind, rest); length < 0 {
			return weight
		}
		weight += protobufWeights[depth]
		if kind == protowire.BytesType && depth+1 < len(protobufWeights) {
			inner, _ := protowire.ConsumeBytes(rest)
			weight += weightOfProtobuf(inner, depth+1)
		}
		message = rest[length:]
	}
	return weight
}

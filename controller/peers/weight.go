package peers

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maxWeight is the memory, in bytes, that a decoded answer may need. An empty item takes 2 bytes of
// an answer and 400 bytes of memory, so a limit for the length does not limit the memory. Real
// EndpointSlices need two to eight times their length.
const maxWeight = 128 << 20

var errTooHeavy = fmt.Errorf("the answer has so many items or fields that it would need more than %d MiB of memory", maxWeight>>20)

// Estimates of the memory for one value, by its depth: an item of a list, an element or field of an
// item, and the elements and fields below.
const (
	weightItem = 400
	weightPart = 150
	weightLeaf = 24
)

// weighed rejects data that needs too much memory, before it is decoded.
type weighed struct{ runtime.Serializer }

// protobufPrefix is the start of each protobuf answer of an API server.
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

// weightOfJSON counts commas, weighted by the number of open brackets. Two open brackets are a list
// of items.
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

// protobufWeights are the weights of a field by its depth. The outermost message is an envelope.
// The contents of a leaf are not inspected.
var protobufWeights = [...]int{0, weightItem, weightPart, weightLeaf, weightLeaf}

// weightOfProtobuf counts fields. A field of type bytes can be a message or text. Text has few
// fields when it is parsed as a message, or is not a valid message.
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

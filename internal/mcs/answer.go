package mcs

// Answer is the value of an annotation that is "true" or "false".
type Answer int

const (
	// Silent means that the annotation is absent.
	Silent Answer = iota
	// Yes is "true".
	Yes
	// No is "false".
	No
	// Malformed is any other value, and counts as no annotation.
	Malformed
)

// AnswerOf returns the value of an annotation.
func AnswerOf(annotations map[string]string, key string) Answer {
	switch text, given := annotations[key]; {
	case !given:
		return Silent
	case text == "true":
		return Yes
	case text == "false":
		return No
	default:
		return Malformed
	}
}

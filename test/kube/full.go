package kube

import "os"

// Full says whether tests run in their full form, as every night: where CI_FULL is set.
func Full() bool { return os.Getenv("CI_FULL") != "" }

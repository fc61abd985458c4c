// Package merge makes one import of all exports of a name, by the rules of KEP-1645, and names their conflicts. Every cluster computes the
// same result from the same exports.
//
//	[]Member -> Merge -> Merged (with Conflict)
//
// The cases are in testdata, beside the imports and slices that follow from them.
//
// Export and ServiceSpec are what the clusters see of a ServiceExport and its Service. TrimExport, TrimService and TrimSlice make them:
// what no cluster reads is not kept in memory. Everything that comes from an export has a bound.
package merge

// Package merge merges all exports of a name to one import, by the rules of KEP-1645, and finds
// their conflicts. Every cluster computes the same result from the same exports.
//
//	[]Member -> Merge -> Merged (with Conflict)
//
// The directory testdata contains the cases, with the imports and slices that follow from them.
//
// Export and ServiceSpec are what the clusters read of a ServiceExport and its Service. TrimExport,
// TrimService and TrimSlice make them: the controller does not keep in memory what no cluster
// reads. Everything that comes from an export has a size limit.
package merge

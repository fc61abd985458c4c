// Package observed holds what was read for one name, as plain values: the input of the stages after it.
//
//	State   the objects of this cluster that belong to the name, what each cluster reports of it, and what the API server has refused
//	Recall  completes that with what the import has recorded of clusters that are silent: absent is not empty
//
// The objects belong to a cache: copy one before you edit it.
package observed

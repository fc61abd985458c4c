// Package observed holds what was read for one name, as plain values: the input of the stages after it.
//
//	State   the objects of this cluster that belong to the name, what each cluster reports of it, and what the API server has refused
//	Recall  completes that with what the import has recorded of clusters that are silent: absent is not empty
//
// What a cluster counts for, by where Clusterset has it:
//
//	                    the import         its endpoints      because
//	Members             as it reports      as it reports      it was read, or counts on while it cannot be reached
//	Members, no slices  as it reports      none               it was read, and its time has run out (peers.Expired)
//	Silent              as recorded        stay as they are   this process has not read it yet
//	SilentExpired       as recorded        none               nor will it soon: its time has run out
//	Vacant              as recorded        stay as they are   its Service is being replaced, its export is there
//
// The objects belong to a cache: copy one before you edit it.
package observed

// Package observed contains what was read for one name, as plain values: the input of the later
// stages.
//
//	State   the objects of this cluster that belong to the name, what each cluster reports of it,
//	        and what the API server has refused
//	Recall  adds what the import has recorded of silent clusters: absent is not empty
//
// The field of Clusterset that a cluster is in decides what it contributes:
//
//	                    import       endpoints    reason
//	Members             reported     reported     read, but perhaps not reachable now
//	Members, no slices  reported     none         read, and proven to be dead (peers.Dead)
//	Members, Assumed    reported     if the last  read, and its time has run out (peers.Expired)
//	Silent              recorded     unchanged    not read by this process yet
//	SilentExpired       recorded     none         not read yet, and its time has run out
//	SilentAssumed       recorded     if the last  the same; it is in SilentExpired as well
//	Vacant              recorded     unchanged    its Service is being replaced; its export exists
//
// The objects belong to a cache: copy an object before you edit it.
package observed

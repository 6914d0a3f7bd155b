/* Tasks get references to an object and put them back. Who puts the last one, with the lock held, may mark the object dead: then
 * nobody has a reference, and nobody gets one.
 */
#include <knee_kernel.h>
#define arch_spin_value_unlocked(lock) ((lock).locked == 0)
#include KNEE_FILE

struct knee_object { struct lockref ref; int is_dead, last_put; };

static void knee_use(struct knee_object *object)
{
	if (!lockref_get_not_dead(&object->ref))
		return;
	assert(!READ_ONCE(object->is_dead) && "nobody gets a reference to a dead object");
	if (lockref_put_or_lock(&object->ref))
		return;
	assert(object->ref.count == 1 && "with one reference left, lockref_put_or_lock takes the lock");
	object->last_put = 1;
	if (knee_choose(2)) {
		lockref_mark_dead(&object->ref);
		WRITE_ONCE(object->is_dead, 1);
	} else {
		object->ref.count--;
	}
	spin_unlock(&object->ref.lock);
}

KNEE_OPERATION(struct knee_object, knee_use(shared))
KNEE_CHECK(struct knee_object,
	   shared->last_put && (shared->is_dead ? __lockref_is_dead(&shared->ref) : shared->ref.count == 0))
KNEE_ONCE(ref.count)

/* bit_spin_lock and bit_spin_unlock of one bit in a word whose other bits the lock guards. */
#include <knee_kernel.h>
#include KNEE_FILE

struct knee_bit_lock { unsigned long word; };

KNEE_LOCK(struct knee_bit_lock, bit_spin_lock(3, &lock->word), bit_spin_unlock(3, &lock->word))
KNEE_AT_REST(struct knee_bit_lock, lock->word == 0)

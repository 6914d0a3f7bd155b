#include "bare.h"

int main(int argc, char **argv)
{
	begin(argc, argv);
	volatile int *stop = start();
	long n = 0;
	for (; !*stop; n++)
		getppid();
	finish(n);
}

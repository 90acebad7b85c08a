// Counts what a call asks of Python's allocators. The domains `mem` and `obj` are wrapped while the call runs, and every malloc,
// calloc and realloc of this thread is one. Objects that come from a free list of the interpreter are none: it asked nobody.
// A block may be freed by either side: the wrapper hands each request on to the allocator that was there before.
#include <Python.h>
#include <pthread.h>

static const PyMemAllocatorDomain domains[] = {PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
static PyMemAllocatorEx before[2];
static pthread_t counted_thread;
static long long found;

static void one(void) {
    if (pthread_equal(pthread_self(), counted_thread)) found++;
}

static void *counted_malloc(void *own, size_t size) {
    PyMemAllocatorEx *next = own;
    one();
    return next->malloc(next->ctx, size);
}

static void *counted_calloc(void *own, size_t count, size_t size) {
    PyMemAllocatorEx *next = own;
    one();
    return next->calloc(next->ctx, count, size);
}

static void *counted_realloc(void *own, void *block, size_t size) {
    PyMemAllocatorEx *next = own;
    one();
    return next->realloc(next->ctx, block, size);
}

static void handed_free(void *own, void *block) {
    PyMemAllocatorEx *next = own;
    next->free(next->ctx, block);
}

// Allocations of one call without arguments; -1 with the exception of the call.
long long allocations_of(PyObject *call) {
    counted_thread = pthread_self();
    found = 0;
    for (int each = 0; each < 2; each++) {
        PyMem_GetAllocator(domains[each], &before[each]);
        PyMemAllocatorEx counted = {&before[each], counted_malloc, counted_calloc, counted_realloc, handed_free};
        PyMem_SetAllocator(domains[each], &counted);
    }
    PyObject *result = PyObject_CallNoArgs(call);
    for (int each = 0; each < 2; each++) PyMem_SetAllocator(domains[each], &before[each]);
    Py_XDECREF(result);
    return result == NULL ? -1 : found;
}

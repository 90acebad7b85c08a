// The twin of at_most.py in C: a compiled install loads it in its place (hatch_build.py), and SIDECAR_PURE=1 does without. at_most.py
// says what the function promises. No byte beyond those that were given is read, and none is written.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <string.h>

typedef const unsigned char *Bytes;
typedef unsigned char Block __attribute__((vector_size(16)));  // SSE2 on x86-64, NEON on arm64

enum { COUNTED_BLOCKS = 255 };  // each of the sixteen counts is a byte

static inline Block block_at(Bytes at) {
    Block block;
    memcpy(&block, at, sizeof block);
    return block;
}

static bool counts_at_most(Py_ssize_t most, unsigned char byte, Bytes at, Bytes end) {
    if (most < 0) return false;
    Py_ssize_t left = most;
    while (end - at >= 16) {
        Block counts = {0};
        for (int blocks = 0; blocks < COUNTED_BLOCKS && end - at >= 16; blocks++, at += 16) {
            counts -= (Block)(block_at(at) == byte);  // a comparison gives 255, which is -1, for each byte that is equal
        }
        for (int each = 0; each < 16; each++) left -= counts[each];
        if (left < 0) return false;
    }
    for (; at < end; at++) left -= *at == byte;
    return left >= 0;
}

static PyObject *has_at_most(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_ssize_t most;
    char byte;
    Py_buffer text;
    if (!PyArg_ParseTuple(arguments, "ncy*:has_at_most", &most, &byte, &text)) return NULL;
    bool rare = counts_at_most(most, (unsigned char)byte, text.buf, (Bytes)text.buf + text.len);
    PyBuffer_Release(&text);
    return PyBool_FromLong(rare);
}

static PyMethodDef FUNCTIONS[] = {
    {"has_at_most", has_at_most, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "at_most", NULL, -1, FUNCTIONS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_at_most(void) { return PyModule_Create(&MODULE); }

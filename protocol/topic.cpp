#include "protocol/bytes.h"

#include <stdio.h>

#include "price.h"

int main(void)
{
    int unused = 1;
    printf("%d\n", PRICE + shipping);
    return some_function(;
}

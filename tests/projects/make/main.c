#include <stdio.h>

#include "price.h"

int main(void)
{
    int unused = 1;
    printf("%d\n", PRICE + 40);
    return 0;
}

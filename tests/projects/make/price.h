/* What one piece costs. */
#define PRICE 60

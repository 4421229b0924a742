package shop;

/** What one piece costs. */
public final class Price {
    private final int cents;

    public Price(int cents) {
        this.cents = cents;
    }

    /** The total of two prices. */
    public Price plus(Price other) {
        return new Price(cents + other.cents);
    }

    /** A price as a customer reads it. */
    public String label() {
        return new Integer(cents) + " ct";
    }
}

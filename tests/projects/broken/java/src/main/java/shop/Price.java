package shop;

/** What one piece costs. */
public final class Price {
    private final int cents;

    public Price(int cents) {
        this.cents = cents;
    }

    /** A price as a customer reads it. */
    public String label() {
        int unit = "ct";
        return new Integer(cents) + someFunction();
    }
}

//! Who is next, where several clients wait for the same thing.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

/// Whom something is done for. Addresses take turns, and so do the clients of an address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client {
    /// Where it is; `None`: this process, or the one that started it.
    pub address: Option<IpAddr>,
    /// Tells the clients of an address apart.
    pub id: u64,
}

/// What waits, each for its client.
#[derive(Debug)]
pub struct Line<T> {
    items: VecDeque<Waiting<T>>,
    /// When an address and a client had their last turns, counted in turns. Empty as soon as nothing
    /// waits.
    addresses: HashMap<Option<IpAddr>, u64>,
    clients: HashMap<Client, u64>,
    turns: u64,
}

#[derive(Debug)]
struct Waiting<T> {
    client: Client,
    item: T,
    /// Since when, counted in turns.
    since: u64,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let (addresses, clients) = (HashMap::new(), HashMap::new());
        Self { items: VecDeque::new(), addresses, clients, turns: 0 }
    }
}

impl<T> Line<T> {
    /// Adds something at the end.
    pub fn add(&mut self, client: Client, item: T) {
        self.items.push_back(Waiting { client, item, since: self.turns });
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What is next of those clients that `may` have a turn: of the address, and then of the client,
    /// whose last turn is the longest ago. Where clients have had none, every other turn is that of
    /// the one that came last: a crowd delays it by one turn, and not by all of theirs.
    pub fn take(&mut self, may: impl Fn(&Client) -> bool) -> Option<(Client, T)> {
        let is_last = self.items.len() == 1;
        let place = if is_last { 0 } else { self.next(&may)? };
        if !may(&self.items.get(place)?.client) {
            return None;
        }
        let Waiting { client, item, .. } = self.items.remove(place)?;
        if is_last {
            self.addresses.clear();
            self.clients.clear();
            self.turns = 0;
        } else {
            self.turns += 1;
            self.addresses.insert(client.address, self.turns);
            self.clients.insert(client, self.turns);
        }
        Some((client, item))
    }

    fn next(&self, may: impl Fn(&Client) -> bool) -> Option<usize> {
        let prefers_last = self.turns % 2 == 1;
        let rank = |place: usize, waiting: &Waiting<T>| {
            let address = self.addresses.get(&waiting.client.address).copied().unwrap_or_default();
            match self.clients.get(&waiting.client) {
                None if prefers_last => (address, 0, self.items.len() - place),
                None => (address, waiting.since, place),
                Some(turn) => (address, *turn, place),
            }
        };
        let all = self.items.iter().enumerate().filter(|(_, waiting)| may(&waiting.client));
        let (place, waiting) = all.min_by_key(|(place, waiting)| rank(*place, waiting))?;
        // What one client asks for is done in its order.
        let of_client = |earlier: &Waiting<T>| earlier.client == waiting.client;
        self.items.iter().take(place + 1).position(of_client)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn client(address: u8, id: u64) -> Client {
        Client { address: Some([127, 0, 0, address].into()), id }
    }

    /// The turns of clients with so many items each, which all wait at the beginning.
    fn turns(waiting: &[(Client, usize)]) -> Vec<Client> {
        let mut line = Line::default();
        for (client, number) in waiting {
            (0..*number).for_each(|item| line.add(*client, item));
        }
        let mut last: HashMap<Client, usize> = HashMap::new();
        let turns = std::iter::from_fn(|| line.take(|_| true)).map(|(client, item)| {
            assert!(last.insert(client, item).is_none_or(|last| last < item), "{client:?}");
            client
        });
        turns.collect()
    }

    #[test]
    fn clients_take_turns() {
        let [one, other] = [client(1, 1), client(1, 2)];
        let turns = turns(&[(one, 100), (other, 3)]);
        assert_eq!(turns.len(), 103);
        let last = turns.iter().rposition(|client| *client == other).unwrap();
        assert!(last <= 6, "{last}");
    }

    #[test]
    fn addresses_take_turns_however_many_clients_they_have() {
        let mut waiting: Vec<(Client, usize)> = (0..100).map(|id| (client(1, id), 1)).collect();
        waiting.push((client(2, 0), 3));
        let turns = turns(&waiting);
        let last = turns.iter().rposition(|turn| *turn == client(2, 0)).unwrap();
        assert!(last <= 6, "{last}");
    }

    #[test]
    fn a_crowd_delays_who_comes_last_by_a_turn_or_two() {
        let mut waiting: Vec<(Client, usize)> = (0..100).map(|id| (client(1, id), 1)).collect();
        waiting.push((client(1, 1000), 1));
        let turns = turns(&waiting);
        assert!(turns[..2].contains(&client(1, 1000)), "{:?}", &turns[..2]);
        assert_eq!(turns[0], client(1, 0));
    }

    #[test]
    fn who_may_not_have_a_turn_holds_nobody_up() {
        let mut line = Line::default();
        let [one, other] = [client(1, 1), client(1, 2)];
        line.add(one, 1);
        line.add(other, 2);
        assert_eq!(line.take(|client| *client == other), Some((other, 2)));
        assert_eq!(line.take(|client| *client == other), None);
        assert_eq!(line.len(), 1);
        assert_eq!(line.take(|_| true), Some((one, 1)));
        assert!(line.is_empty());
    }
}

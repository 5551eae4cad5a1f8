//! The example of the README; a test sees to it that the two are the same.

fn sum(numbers: &[u64]) -> u64 {
    if numbers.len() <= 1 {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (left, right) = raddle::join(|| sum(left), || sum(right)); // every addition is a task
    left + right
}

fn main() {
    let numbers: Vec<u64> = (1..=10_000_000).collect();
    println!("{}", sum(&numbers)); // 50000005000000
}

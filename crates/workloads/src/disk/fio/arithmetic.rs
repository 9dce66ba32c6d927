//! Arithmetic in values, as fio has it: whole numbers with `+ - * / % ^` and parentheses. A number may have a unit.

use super::value;

/// How deep parentheses may be nested, and how many signs may precede a number.
const DEPTH_MAX: u32 = 32;

/// The value of an expression; none when it is none, is divided by 0 or is not from 0 to 2^64.
pub(super) fn evaluate(text: &str) -> Option<u64> {
    let mut parser = Parser { rest: text, depth: 0 };
    let value = parser.sum()?;
    parser.skip();
    parser.rest.is_empty().then(|| u64::try_from(value).ok())?
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// The next operator, if it is one of these.
    fn operator(&mut self, of: &[char]) -> Option<char> {
        self.skip();
        let next = self.rest.chars().next().filter(|next| of.contains(next))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn sum(&mut self) -> Option<i128> {
        let mut value = self.product()?;
        while let Some(operator) = self.operator(&['+', '-']) {
            let next = self.product()?;
            value = if operator == '+' { value.checked_add(next)? } else { value.checked_sub(next)? };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i128> {
        let mut value = self.power()?;
        while let Some(operator) = self.operator(&['*', '/', '%']) {
            let next = self.power()?;
            value = match operator {
                '*' => value.checked_mul(next)?,
                '/' => value.checked_div(next)?,
                _ => value.checked_rem(next)?,
            };
        }
        Some(value)
    }

    fn power(&mut self) -> Option<i128> {
        let base = self.term()?;
        match self.operator(&['^']) {
            Some(_) => {
                self.depth += 1;
                let exponent = (self.depth <= DEPTH_MAX).then(|| self.power())??;
                self.depth -= 1;
                base.checked_pow(u32::try_from(exponent).ok()?)
            }
            None => Some(base),
        }
    }

    fn term(&mut self) -> Option<i128> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = if self.operator(&['(']).is_some() {
            let value = self.sum()?;
            self.operator(&[')'])?;
            value
        } else if self.operator(&['-']).is_some() {
            -self.term()?
        } else {
            self.skip();
            let end =
                self.rest.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
            let (number, rest) = self.rest.split_at(end);
            self.rest = rest;
            i128::from(value::bytes(number)?)
        };
        self.depth -= 1;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_worked_out_exactly() {
        for (text, expected) in [
            ("(8*1024)", Some(8192)),
            ("5*1024*1024*24105/8", Some(15_797_452_800)),
            ("2+3*4^2-1", Some(49)),
            ("(2k+1)*3 % 1000", Some(147)),
            ("2^3^2", Some(512)),
            ("10-(-2)", Some(12)),
            ("7/2", Some(3)),
            ("1/0", None),
            ("1-2", None),
            ("2^200", None),
            ("2^64", None),
            ("(1", None),
            ("1)", None),
            ("", None),
            ("1 2", None),
            ("4k-", None),
        ] {
            assert_eq!(evaluate(text), expected, "{text}");
        }
        assert_eq!(evaluate(&"(".repeat(100_000)), None);
        assert_eq!(evaluate(&format!("{}1", "-".repeat(100_000))), None);
        assert_eq!(evaluate(&"2^".repeat(100_000)), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9kKmz()+*/%^ -]{0,40}") {
            let _ = evaluate(&text);
        }
    }
}

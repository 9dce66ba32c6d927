//! The organization of the people: divisions with departments, sites, and levels with titles.
//!
//! Everybody's manager has a lower number: in base 8, it is the person's number with its lowest nonzero digit
//! set to 0. Eight consecutive people are a team, led by the first; 64 are a department. The number of
//! trailing zeros is the number of levels that a person leads.

/// Number of bits in an octal digit.
const DIGIT_BITS: u32 = 3;
/// Number of people in a team, including its lead.
pub(crate) const TEAM: u64 = 1 << DIGIT_BITS;
/// Number of teams in a department.
pub(crate) const DEPARTMENT_TEAMS: u64 = 8;
/// Number of consecutive departments that belong to one division.
pub(crate) const DIVISION_DEPARTMENTS: u64 = 8;

/// The number of levels that person `index` leads; the first person leads all.
pub(crate) fn level(index: u64) -> u32 {
    if index == 0 { u32::MAX } else { index.trailing_zeros() / DIGIT_BITS }
}

/// The lead of person `index` by the numbers alone. The first person has none.
pub(crate) fn lead_of(index: u64) -> Option<u64> {
    (index > 0).then(|| index & !((TEAM - 1) << (DIGIT_BITS * level(index))))
}

/// Prefixes of the titles of people who lead nobody.
pub(crate) const GRADES: [&str; 4] = ["", "Senior ", "Junior ", "Principal "];
/// Number of titles in each division.
pub(crate) const TITLES: usize = 6;
/// Number of departments in each division.
pub(crate) const DEPARTMENTS: usize = 6;

pub(crate) struct Division {
    pub(crate) name: &'static str,
    /// How many of 32 drawn divisions are this one.
    weight: usize,
    pub(crate) departments: [&'static str; DEPARTMENTS],
    pub(crate) titles: [&'static str; TITLES],
}

#[rustfmt::skip]
pub(crate) static DIVISIONS: [Division; 12] = [
    Division { name: "Operations", weight: 6,
        departments: ["Plant Operations", "Logistics", "Warehousing", "Production Planning", "Maintenance", "Fleet"],
        titles: ["Operator", "Technician", "Planner", "Shift Coordinator", "Dispatcher", "Process Engineer"] },
    Division { name: "Sales", weight: 5,
        departments: ["Inside Sales", "Key Accounts", "Field Sales", "Sales Operations", "Partner Sales", "Export"],
        titles: ["Sales Representative", "Account Manager", "Sales Engineer", "Sales Analyst", "Bid Writer", "Account Executive"] },
    Division { name: "Customer Service", weight: 4,
        departments: ["Service Desk", "Field Service", "Claims", "Contact Center", "Training", "Spare Parts"],
        titles: ["Service Agent", "Support Engineer", "Case Worker", "Trainer", "Service Technician", "Customer Advisor"] },
    Division { name: "Information Technology", weight: 3,
        departments: ["Infrastructure", "Identity and Access", "Application Support", "Data Platform", "IT Security", "Workplace"],
        titles: ["Systems Engineer", "Developer", "Database Administrator", "Network Engineer", "IT Analyst", "Solution Architect"] },
    Division { name: "Research", weight: 3,
        departments: ["Materials", "Hydrodynamics", "Product Design", "Prototyping", "Testing", "Standards"],
        titles: ["Scientist", "Research Engineer", "Laboratory Technician", "Designer", "Test Engineer", "Data Scientist"] },
    Division { name: "Finance", weight: 2,
        departments: ["Accounts Payable", "Accounts Receivable", "Treasury", "Tax", "Controlling", "Payroll"],
        titles: ["Accountant", "Financial Analyst", "Controller", "Payroll Clerk", "Tax Advisor", "Auditor"] },
    Division { name: "Engineering", weight: 2,
        departments: ["Mechanical", "Electrical", "Software", "Quality", "Naval Architecture", "Safety"],
        titles: ["Engineer", "Design Engineer", "Software Engineer", "Quality Inspector", "Drafter", "Safety Engineer"] },
    Division { name: "Procurement", weight: 2,
        departments: ["Strategic Purchasing", "Operative Purchasing", "Supplier Quality", "Contracts", "Freight", "Facilities"],
        titles: ["Buyer", "Purchasing Clerk", "Category Manager", "Supplier Auditor", "Contract Manager", "Facility Manager"] },
    Division { name: "Marketing", weight: 2,
        departments: ["Brand", "Communications", "Market Research", "Events", "Digital Marketing", "Publications"],
        titles: ["Marketing Specialist", "Editor", "Market Analyst", "Graphic Designer", "Event Planner", "Copywriter"] },
    Division { name: "Human Resources", weight: 1,
        departments: ["Recruiting", "Compensation", "Personnel Development", "Labor Relations", "Travel", "Health"],
        titles: ["Recruiter", "HR Specialist", "HR Business Partner", "Travel Clerk", "Occupational Nurse", "Compensation Analyst"] },
    Division { name: "Legal", weight: 1,
        departments: ["Corporate Law", "Compliance", "Patents", "Privacy", "Insurance", "Trade Control"],
        titles: ["Counsel", "Paralegal", "Compliance Officer", "Patent Attorney", "Privacy Officer", "Legal Secretary"] },
    Division { name: "Administration", weight: 1,
        departments: ["Reception", "Records", "Mail Room", "Site Security", "Canteen", "Building Services"],
        titles: ["Clerk", "Assistant", "Receptionist", "Archivist", "Security Guard", "Caretaker"] },
];

/// A department by its index in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Department {
    pub(crate) division: u8,
    pub(crate) within: u8,
}

impl Department {
    /// Draws a division by its weight, and one of its departments.
    pub(crate) fn drawn(division: u64, within: u64) -> Department {
        let mut left = (division % 32) as usize;
        let chosen = DIVISIONS.iter().position(|of| {
            let here = left < of.weight;
            left = left.saturating_sub(of.weight);
            here
        });
        Department { division: chosen.unwrap_or(0) as u8, within: (within % DEPARTMENTS as u64) as u8 }
    }

    /// The department with index `number` among all departments.
    pub(crate) fn numbered(number: u64) -> Option<Department> {
        (number < DEPARTMENTS_ALL).then_some(Department {
            division: (number / DEPARTMENTS as u64) as u8,
            within: (number % DEPARTMENTS as u64) as u8,
        })
    }

    pub(crate) fn division(self) -> &'static Division {
        &DIVISIONS[usize::from(self.division)]
    }

    pub(crate) fn name(self) -> &'static str {
        self.division().departments[usize::from(self.within)]
    }

    /// 1010, 1020, ... 1060, 1110 ...
    pub(crate) fn number(self) -> u64 {
        1010 + 100 * u64::from(self.division) + 10 * u64::from(self.within)
    }
}

/// Number of departments in all divisions.
pub(crate) const DEPARTMENTS_ALL: u64 = (DIVISIONS.len() * DEPARTMENTS) as u64;

/// The titles of people who lead one level, two, and so on, and of the first person. Up to two levels they
/// are followed by the department, from three by the division.
pub(crate) static LEADS: [[&str; 4]; 5] = [
    ["Team Lead", "Group Lead", "Senior Team Lead", "Supervisor"],
    ["Manager", "Senior Manager", "Head", "Group Manager"],
    ["Director", "Senior Director", "Managing Director", "Executive Director"],
    ["Vice President", "Senior Vice President", "Executive Vice President", "General Manager"],
    ["Chief Executive Officer", "President", "Chairman", "Managing Director"],
];

pub(crate) struct Site {
    pub(crate) city: &'static str,
    pub(crate) state: &'static str,
    pub(crate) country: &'static str,
    pub(crate) country_name: &'static str,
    pub(crate) street: &'static str,
    pub(crate) postal_code: &'static str,
    /// Country code and area code, before the exchange.
    pub(crate) dial: &'static str,
    pub(crate) time_zone: &'static str,
    pub(crate) company: &'static str,
    pub(crate) company_code: &'static str,
}

const fn site(
    [city, state, country, country_name]: [&'static str; 4],
    [street, postal_code]: [&'static str; 2],
    [dial, time_zone]: [&'static str; 2],
    [company, company_code]: [&'static str; 2],
) -> Site {
    Site { city, state, country, country_name, street, postal_code, dial, time_zone, company, company_code }
}

const UK: [&str; 2] = ["Loadline Marine plc", "GB10"];
const US: [&str; 2] = ["Loadline Shipping, Inc.", "US10"];
const DE: [&str; 2] = ["Loadline Schiffstechnik GmbH", "DE10"];
const FR: [&str; 2] = ["Loadline Navigation S.A.", "FR10"];
const EU: [&str; 2] = ["Loadline Europe B.V.", "NL10"];
const ASIA: [&str; 2] = ["Loadline Asia Pte. Ltd.", "SG10"];
const LATIN: [&str; 2] = ["Loadline América S.A.", "BR10"];

#[rustfmt::skip]
pub(crate) static SITES: [Site; 32] = [
    site(["Hamburg", "Hamburg", "DE", "Germany"], ["Am Lotsenhöft 12", "20457"], ["+49 40", "Europe/Berlin"], DE),
    site(["London", "England", "GB", "United Kingdom"], ["48 Freeboard Row", "E14 5AB"], ["+44 20", "Europe/London"], UK),
    site(["Boston", "MA", "US", "United States"], ["210 Keel Street", "02110"], ["+1 617", "America/New_York"], US),
    site(["Rotterdam", "Zuid-Holland", "NL", "Netherlands"], ["Waterlijnkade 7", "3011 AA"], ["+31 10", "Europe/Amsterdam"], EU),
    site(["München", "Bayern", "DE", "Germany"], ["Ankerstraße 3", "80331"], ["+49 89", "Europe/Berlin"], DE),
    site(["Marseille", "Provence-Alpes-Côte d'Azur", "FR", "France"], ["18 quai de la Flottaison", "13002"], ["+33 4", "Europe/Paris"], FR),
    site(["Seattle", "WA", "US", "United States"], ["1500 Draught Avenue", "98101"], ["+1 206", "America/Los_Angeles"], US),
    site(["Bristol", "England", "GB", "United Kingdom"], ["9 Samuel's Wharf", "BS1 4RW"], ["+44 117", "Europe/London"], UK),
    site(["São Paulo", "SP", "BR", "Brazil"], ["Avenida do Calado 900", "01310-100"], ["+55 11", "America/Sao_Paulo"], LATIN),
    site(["Singapore", "Singapore", "SG", "Singapore"], ["33 Ballast Road", "079903"], ["+65", "Asia/Singapore"], ASIA),
    site(["Houston", "TX", "US", "United States"], ["77 Bilge Boulevard", "77002"], ["+1 713", "America/Chicago"], US),
    site(["Göteborg", "Västra Götaland", "SE", "Sweden"], ["Köldstråket 5", "411 04"], ["+46 31", "Europe/Stockholm"], EU),
    site(["Genova", "Liguria", "IT", "Italy"], ["Via della Chiglia 21", "16124"], ["+39 010", "Europe/Rome"], EU),
    site(["Bremen", "Bremen", "DE", "Germany"], ["Ladeliniendeich 44", "28195"], ["+49 421", "Europe/Berlin"], DE),
    site(["Dublin", "Leinster", "IE", "Ireland"], ["6 Tideway Quay", "D02 XY45"], ["+353 1", "Europe/Dublin"], UK),
    site(["Gdańsk", "Pomorskie", "PL", "Poland"], ["ulica Wodnicy 14", "80-001"], ["+48 58", "Europe/Warsaw"], EU),
    site(["Valencia", "Comunitat Valenciana", "ES", "Spain"], ["Calle de la Quilla 30", "46001"], ["+34 96", "Europe/Madrid"], EU),
    site(["Yokohama", "Kanagawa", "JP", "Japan"], ["2-8-1 Kissui", "220-0012"], ["+81 45", "Asia/Tokyo"], ASIA),
    site(["Chennai", "Tamil Nadu", "IN", "India"], ["112 Mastline Road", "600001"], ["+91 44", "Asia/Kolkata"], ASIA),
    site(["Busan", "Busan", "KR", "Korea"], ["55 Heulsu-ro", "48943"], ["+82 51", "Asia/Seoul"], ASIA),
    site(["Shanghai", "Shanghai", "CN", "China"], ["801 Chishui Road", "200001"], ["+86 21", "Asia/Shanghai"], ASIA),
    site(["İzmir", "İzmir", "TR", "Türkiye"], ["Omurga Caddesi 17", "35210"], ["+90 232", "Europe/Istanbul"], EU),
    site(["Piraeus", "Attica", "GR", "Greece"], ["Akti Isalou 29", "185 35"], ["+30 21", "Europe/Athens"], EU),
    site(["Lisboa", "Lisboa", "PT", "Portugal"], ["Rua do Calado 62", "1100-001"], ["+351 21", "Europe/Lisbon"], EU),
    site(["Dubai", "Dubai", "AE", "United Arab Emirates"], ["4 Dhow Street", "00000"], ["+971 4", "Asia/Dubai"], ASIA),
    site(["Halifax", "NS", "CA", "Canada"], ["300 Fairlead Lane", "B3J 1A1"], ["+1 902", "America/Halifax"], US),
    site(["Sydney", "NSW", "AU", "Australia"], ["88 Capstan Street", "2000"], ["+61 2", "Australia/Sydney"], ASIA),
    site(["Valparaíso", "Valparaíso", "CL", "Chile"], ["Calle del Calado 410", "2340000"], ["+56 32", "America/Santiago"], LATIN),
    site(["Le Havre", "Normandie", "FR", "France"], ["3 rue de la Carène", "76600"], ["+33 2", "Europe/Paris"], FR),
    site(["Ålesund", "Møre og Romsdal", "NO", "Norway"], ["Kjølvegen 8", "6003"], ["+47 70", "Europe/Oslo"], EU),
    site(["Zürich", "Zürich", "CH", "Switzerland"], ["Seelinienstrasse 51", "8001"], ["+41 44", "Europe/Zurich"], DE),
    site(["New Orleans", "LA", "US", "United States"], ["1 Levee Landing", "70112"], ["+1 504", "America/Chicago"], US),
];

/// Streets of home addresses.
pub(crate) static STREETS: [&str; 48] = [
    "Main Street",
    "Church Lane",
    "Station Road",
    "Mill Lane",
    "Park Avenue",
    "High Street",
    "Bridge Street",
    "Garden Row",
    "Orchard Close",
    "Harbour View",
    "Lindenweg",
    "Gartenstraße",
    "Bahnhofstraße",
    "Am Mühlenbach",
    "Birkenallee",
    "Rosenweg",
    "Schulstraße",
    "Bergstraße",
    "Kirchgasse",
    "Feldweg",
    "rue des Lilas",
    "rue de l'Église",
    "avenue du Marché",
    "chemin Vert",
    "rue du Moulin",
    "place Neuve",
    "Calle Mayor",
    "Calle del Olmo",
    "Avenida de la Estación",
    "Plaza Nueva",
    "Via Roma",
    "Via dei Mille",
    "Via del Pozzo",
    "Corso Nuovo",
    "Rua das Flores",
    "Rua da Fonte",
    "Avenida Central",
    "Dorpsstraat",
    "Molenweg",
    "Kerkstraat",
    "Storgatan",
    "Skolvägen",
    "Ängsvägen",
    "ulica Polna",
    "ulica Leśna",
    "Bahçe Sokak",
    "Lake Drive",
    "Hill Road",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn leads_have_lower_numbers_and_lead_to_the_first() {
        for (index, lead) in
            [(1, 0), (7, 0), (8, 0), (9, 8), (63, 56), (72, 64), (520, 512), (0o1234, 0o1230)]
        {
            assert_eq!(lead_of(index), Some(lead), "{index}");
        }
        assert_eq!(lead_of(0), None);
    }

    #[test]
    fn divisions_are_drawn_by_their_weight() {
        assert_eq!(DIVISIONS.iter().map(|of| of.weight).sum::<usize>(), 32);
        let sales = (0..32).filter(|draw| Department::drawn(*draw, 0).division().name == "Sales").count();
        assert_eq!(sales, 5);
    }

    #[test]
    fn departments_have_names_and_numbers_of_their_own() {
        let all: Vec<Department> = (0..DEPARTMENTS_ALL).filter_map(Department::numbered).collect();
        assert_eq!(all.iter().map(|of| of.name()).collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(all.iter().map(|of| of.number()).collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(Department::numbered(DEPARTMENTS_ALL), None);
    }

    #[test]
    fn sites_are_distinguished_by_their_city() {
        assert_eq!(SITES.iter().map(|site| site.city).collect::<BTreeSet<_>>().len(), SITES.len());
    }
}

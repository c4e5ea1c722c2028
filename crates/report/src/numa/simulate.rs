//! Placement policies in the simulator, beside what was published.

use crate::report::Report;
use pmuscope_numa::simulate::{
    COLUMNS, LIMIT, Machine, Policy, SimulatedRuns, SimulatedTest, agreement,
};
use serde::Serialize;

use crate::sheet::{Field, Separator, Sheet};
use crate::{Column, Style, Table, number, wrap_lines};

/// Schema of the simulated table as JSON.
const NUMA_SIMULATE_SCHEMA: &str = "pmuscope/numa-simulate/1";

/// The result of `pmuscope numa simulate`.
#[derive(Debug, Serialize)]
pub struct NumaSimulation {
    /// What is simulated.
    pub simulated: Machine,
    /// Runs of each test under each policy.
    pub runs: u64,
    /// Where chance begins.
    pub seed: u64,
    /// The tests.
    pub tests: Vec<SimulatedTest>,
}

/// The table for people.
pub(super) fn numa_simulation_text(simulation: &NumaSimulation, style: &Style) -> String {
    let machine = &simulation.simulated;
    let head = format!(
        "simulation, nothing measured: {} NUMA nodes of {} CPUs, n = {} runs of at most {} s, seed {}\n\
         converged: all threads of each process on one node\n\
         cells: median seconds (runs that converged) [published], ! differs from published\n\
         final locality: local accesses with balance\n\n",
        machine.nodes,
        machine.cpus,
        simulation.runs,
        number::fixed(LIMIT, 0),
        simulation.seed,
    );
    let mut columns = vec![Column::text("test").shrink_to(8)];
    columns.extend(COLUMNS.iter().map(|policy| Column::number(name(*policy))));
    columns.push(Column::number("final locality"));
    let mut table = Table::new(columns);
    for row in &simulation.tests {
        let mut cells = vec![row.test.name.to_owned()];
        cells.extend(row.cells.iter().map(text));
        let balance = row.cells.iter().find(|cell| cell.policy.is_none());
        cells.push(balance.map_or_else(|| "-".to_owned(), |cell| number::fixed(cell.local, 2)));
        table.row(cells);
    }
    let all = agreement(&simulation.tests);
    let foot = format!(
        "\n{} of {} cells are informative, {} of these match the published ones; a constant guess for each policy \
         matches {}.\nThe others say nothing: a process of one thread is always on one node, and off and balancenuma \
         move no thread ({} of all {} match).\ndocs/placement-policies.md explains differences\n",
        all.informing, all.cells, all.informing_agree, all.informing_guess, all.agree, all.cells,
    );
    let (head, foot) = (wrap_lines(&head, style.width, 2), wrap_lines(&foot, style.width, 0));
    style.text(&(head + &table.render(style) + &foot)).into_owned()
}

fn name(policy: Option<Policy>) -> &'static str {
    match policy {
        Some(Policy::Off) => "off (3.7)",
        Some(Policy::TwoStage) => "balancenuma",
        Some(Policy::PerTask) => "AutoNUMA",
        Some(Policy::Grouped) => "numa-u",
        None => "balance",
    }
}

/// `8 (5/5) [4.1]`.
fn text(cell: &SimulatedRuns) -> String {
    let seconds = cell.median().map_or_else(|| "-".to_owned(), |s| number::fixed(s, 0));
    let mut text = format!("{seconds} ({}/{})", cell.converged(), cell.seconds.len());
    if let Some(published) = cell.published {
        let published =
            if published < LIMIT { number::fixed(published, 1) } else { "-".to_owned() };
        text += &format!(" [{published}]");
    }
    if cell.agrees() == Some(false) {
        text += " !";
    }
    text
}

impl Report for NumaSimulation {
    fn schema(&self) -> &'static str {
        NUMA_SIMULATE_SCHEMA
    }

    fn text(&self, style: &Style) -> String {
        numa_simulation_text(self, style)
    }

    fn json(&self) -> impl Serialize {
        self
    }

    fn delimited(&self, separator: Separator) -> Option<String> {
        let rows: Vec<SimulatedCell<'_>> = self
            .tests
            .iter()
            .flat_map(|row| row.cells.iter().map(move |cell| (row, cell)))
            .collect();
        Some(Sheet::new(cell_fields(), &rows, rows.len()).delimited(separator))
    }
}

/// A test, and its runs under one policy.
type SimulatedCell<'a> = (&'a SimulatedTest, &'a SimulatedRuns);

/// People see policies side by side, scripts one below the other.
fn cell_fields<'a>() -> Vec<Field<'a, SimulatedCell<'a>>> {
    type Row<'a> = SimulatedCell<'a>;
    vec![
        Field::text("test", |(row, _): &Row<'_>| Some(row.test.name)),
        Field::text("policy", |(_, cell): &Row<'_>| Some(name(cell.policy))),
        Field::count("runs", |(_, cell): &Row<'_>| cell.seconds.len() as u64),
        Field::count("converged", |(_, cell): &Row<'_>| cell.converged() as u64),
        Field::number("median_s", |(_, cell): &Row<'_>| cell.median()),
        Field::number("published_s", |(_, cell): &Row<'_>| cell.published),
        Field::flag("agrees", |(_, cell): &Row<'_>| cell.agrees()),
        Field::number("local_share", |(_, cell): &Row<'_>| Some(cell.local)),
    ]
}

#[cfg(test)]
mod tests {
    use pmuscope_numa::simulate::{TESTS, machine};

    use super::*;

    #[test]
    fn a_cell_says_what_differs() {
        let cell = |policy, published, seconds: [Option<f64>; 3]| SimulatedRuns {
            policy,
            seconds: seconds.to_vec(),
            local: 0.9876,
            published,
            informs: policy.is_none_or(Policy::moves_threads),
        };
        let simulation = NumaSimulation {
            simulated: machine(),
            runs: 3,
            seed: 1,
            tests: vec![SimulatedTest {
                test: TESTS[0],
                cells: vec![
                    cell(Some(Policy::Off), Some(100.1), [None; 3]),
                    cell(Some(Policy::TwoStage), Some(100.0), [Some(1.0), Some(3.0), None]),
                    cell(Some(Policy::PerTask), Some(0.2), [Some(1.0); 3]),
                    cell(Some(Policy::Grouped), Some(2.3), [None, None, Some(2.0)]),
                    cell(None, None, [Some(6.0); 3]),
                ],
            }],
        };
        crate::widths::fits("numa-simulate", |style| numa_simulation_text(&simulation, style));
        insta::assert_snapshot!(numa_simulation_text(&simulation, &Style::PLAIN), @r"
        simulation, nothing measured: 4 NUMA nodes of 8 CPUs, n = 3 runs of at most 100 s, seed 1
        converged: all threads of each process on one node
        cells: median seconds (runs that converged) [published], ! differs from published
        final locality: local accesses with balance

        test               off (3.7)    balancenuma       AutoNUMA           numa-u  balance  final locality
        1x3-convergence  - (0/3) [-]  3 (2/3) [-] !  1 (3/3) [0.2]  - (1/3) [2.3] !  6 (3/3)            0.99

        2 of 4 cells are informative, 1 of these match the published ones; a constant guess for each policy matches 2.
        The others say nothing: a process of one thread is always on one node, and off and balancenuma move no thread (2 of all 4 match).
        docs/placement-policies.md explains differences
        ");
    }
}

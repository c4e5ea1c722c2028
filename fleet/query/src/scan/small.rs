//! Small files, read one after another by each of the engine's threads.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::BatchCoalescer;
use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning,
    PlanProperties, ReplaceChildrenOptions,
};
use pmuscope_dataset::DayFile;

use super::read::{FileBatches, FileReader, ROWS};

/// A part of a plan: rows of small files.
#[derive(Debug, Clone)]
pub(super) struct SmallFiles {
    files: Arc<[DayFile]>,
    /// What is read.
    schema: SchemaRef,
    /// What rows must fulfil.
    filters: Vec<Arc<dyn PhysicalExpr>>,
    properties: Arc<PlanProperties>,
}

impl SmallFiles {
    pub(super) fn new(files: Vec<DayFile>, schema: SchemaRef, partitions: usize) -> Self {
        let partitions = partitions.min(files.len()).max(1);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = properties.with_scheduling_type(SchedulingType::Cooperative);
        Self { files: files.into(), schema, filters: Vec::new(), properties: Arc::new(properties) }
    }
}

impl DisplayAs for SmallFiles {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SmallFiles: files={}", self.files.len())?;
        for filter in &self.filters {
            write!(f, ", filter={filter}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SmallFiles {
    fn name(&self) -> &'static str {
        "SmallFiles"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for filter in &self.filters {
            if f(filter)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let how = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, how)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let filter = (!self.filters.is_empty()).then(|| conjunction(self.filters.iter().cloned()));
        let reader = FileReader::new(Arc::clone(&self.schema), filter)?;
        // Files of one day and host follow one another: each thread gets some of all.
        let step = self.properties.partitioning.partition_count();
        let rows = SmallFileRows {
            files: Arc::clone(&self.files),
            next: partition,
            step,
            reader,
            current: None,
            batches: BatchCoalescer::new(Arc::clone(&self.schema), ROWS)
                .with_biggest_coalesce_batch_size(Some(ROWS / 2)),
            is_done: false,
        };
        let stream = futures::stream::iter(rows);
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream);
        Ok(Box::pin(cooperative(stream)))
    }

    fn handle_child_pushdown_result(
        &self,
        phase: FilterPushdownPhase,
        asked: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        // What is known only when the question runs is checked by whoever asks for it anyway.
        if phase != FilterPushdownPhase::Pre {
            return Ok(FilterPushdownPropagation::all_unsupported(asked));
        }
        let mut taken = self.clone();
        let mut answers = Vec::new();
        for filter in asked.parent_filters {
            let is_taken = !is_volatile(&filter.filter);
            answers.push(if is_taken { PushedDown::Yes } else { PushedDown::No });
            if is_taken {
                taken.filters.push(filter.filter);
            }
        }
        let answer = FilterPushdownPropagation::with_parent_pushdown_result(answers);
        Ok(answer.with_updated_node(Arc::new(taken)))
    }
}

/// Batches of every `step`th file.
struct SmallFileRows {
    files: Arc<[DayFile]>,
    /// The next file.
    next: usize,
    step: usize,
    reader: FileReader,
    current: Option<FileBatches>,
    /// Rows of several files become one batch.
    batches: BatchCoalescer,
    is_done: bool,
}

impl SmallFileRows {
    /// Reads on until a batch is full, or all files are read.
    fn fill(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batches.next_completed_batch() {
                return Ok(Some(batch));
            }
            if self.is_done {
                return Ok(None);
            }
            if let Some(current) = &mut self.current {
                match current.next_batch(&self.reader)? {
                    Some(batch) => self.batches.push_batch(batch)?,
                    None => self.current = None,
                }
            } else if let Some(file) = self.files.get(self.next) {
                self.current = Some(self.reader.open(file)?);
                self.next += self.step;
            } else {
                self.is_done = true;
                self.batches.finish_buffered_batch()?;
            }
        }
    }
}

impl Iterator for SmallFileRows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let filled = self.fill();
        // Nothing comes after an error.
        self.is_done |= filled.is_err();
        filled.transpose()
    }
}

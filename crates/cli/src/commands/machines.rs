//! `plimsoll machines kubernetes`: prints what starts agents in a cluster.

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use engine::allowed::Allowed;
use machines::address::{Address, Reach};
use model::quantity;

use super::text;
use crate::carry_out::Failure;
use crate::exit::Exit;
use crate::output;

/// Where the files of the Secret are in a container.
const FOLDER: &str = "/etc/plimsoll";

pub(crate) fn arguments() -> Command {
    let option = |id: &'static str, value: &'static str, default: &'static str, help: &'static str| {
        Arg::new(id).long(id).value_name(value).default_value(default).help(help)
    };
    let kubernetes = Command::new("kubernetes")
        .about("Print the manifest of an indexed Job of Kubernetes whose pods are agents")
        .after_help(
            "\
The credentials for NATS are in a Secret, which the first lines of the manifest describe.
Example:
  plimsoll machines kubernetes --agents 40 --nats tls://nats:4222/load --ca --allow web1 | kubectl apply -f -
  plimsoll http http://web1/ --on 'tls://nats.example.com/load?agents=40&creds=me.creds'",
        )
        .arg(
            Arg::new("agents")
                .long("agents")
                .value_name("N")
                .required(true)
                .value_parser(value_parser!(u32).range(1..=1000))
                .help("Number of agents"),
        )
        .arg(option(
            "image",
            "IMAGE",
            concat!("plimsoll:", env!("CARGO_PKG_VERSION")),
            "The container image, whose program is `plimsoll`",
        ))
        .arg(option("nats", "URL", "nats://nats:4222/default", "The NATS server and the fleet"))
        .arg(option("name", "NAME", "plimsoll-agents", "The name of the Job"))
        .arg(
            Arg::new("namespace")
                .long("namespace")
                .value_name("NAME")
                .help("The namespace [default: that of kubectl]"),
        )
        .arg(option("secret", "NAME", "plimsoll-nats", "The Secret with the credentials for NATS"))
        .arg(
            option(
                "credentials",
                "KIND",
                "creds",
                "What the Secret has: creds (a credentials file), nkey, token, or user (with a password)",
            )
            .value_parser(["creds", "nkey", "token", "user"]),
        )
        .arg(
            Arg::new("ca")
                .long("ca")
                .action(ArgAction::SetTrue)
                .help("The Secret has the authority of the server's certificate too, as ca.crt"),
        )
        .arg(
            Arg::new("allow")
                .long("allow")
                .value_name("HOST|CIDR")
                .action(ArgAction::Append)
                .value_delimiter(',')
                .help("What the agents may load [default: hosts in private networks]"),
        )
        .arg(option("cpu", "CPUS", "1", "CPUs that each agent has for itself"))
        .arg(option("memory", "SIZE", "512Mi", "Memory of each agent"))
        .arg(option("idle", "TIME", "1h", "An agent ends when no coordinator has come for this long"));
    Command::new("machines")
        .about("Prepare machines for `--on` and `[machines]`")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(kubernetes)
}

pub(crate) fn run(matches: &ArgMatches) -> Result<Exit, Failure> {
    // Clap has refused a command line without a subcommand.
    let Some((_, matches)) = matches.subcommand() else { return Ok(Exit::Usage) };
    let job = Job::read(matches).map_err(|why| Failure::usage(format!("error: {why}")))?;
    output::page(&job.manifest());
    Ok(Exit::Good)
}

/// What a manifest says.
struct Job<'a> {
    agents: u32,
    name: &'a str,
    namespace: Option<&'a str>,
    image: &'a str,
    secret: &'a str,
    credentials: &'a str,
    has_ca: bool,
    cpu: &'a str,
    memory: &'a str,
    /// Of the agent.
    arguments: Vec<String>,
}

impl<'a> Job<'a> {
    fn read(matches: &'a ArgMatches) -> Result<Job<'a>, String> {
        let nats = text(matches, "nats");
        let place = match Address::parse(nats).map(|address| address.reach) {
            Ok(Reach::Fleet(place)) => place,
            Ok(_) => return Err(format!("--nats: `{nats}` does not begin with nats:// or tls://")),
            Err((what, help)) => return Err(format!("--nats: {what}\n  {help}")),
        };
        let credentials = text(matches, "credentials");
        if matches!(credentials, "token" | "user") && !place.tls {
            return Err(format!(
                "--credentials {credentials}: it could be read on the way: write tls:// in --nats, or use creds or nkey, which are not sent"
            ));
        }
        let namespace = matches.get_one::<String>("namespace").map(String::as_str);
        let labels = [("name", text(matches, "name")), ("secret", text(matches, "secret"))];
        for (option, label) in labels.into_iter().chain(namespace.map(|label| ("namespace", label))) {
            if !is_label(label) {
                return Err(format!(
                    "--{option}: `{label}` is not a name in Kubernetes: use lower-case letters, digits and -, at most 52"
                ));
            }
        }
        for option in ["cpu", "memory"] {
            let value = text(matches, option);
            let is_quantity = value.starts_with(|c: char| c.is_ascii_digit())
                && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
            if !is_quantity {
                return Err(format!(
                    "--{option}: `{value}` is no quantity of Kubernetes, such as 500m or 512Mi"
                ));
            }
        }
        let idle = text(matches, "idle");
        quantity::parse_duration(idle).map_err(|error| format!("--idle: {error}"))?;
        let allowed: Vec<&str> =
            matches.get_many::<String>("allow").into_iter().flatten().map(String::as_str).collect();
        Allowed::new(allowed.iter().copied(), false).map_err(|why| format!("--allow: {why}"))?;
        let server = format!("{}/{}", place.server(), place.fleet);
        let mut arguments = vec!["agent".to_string(), "--nats".into(), server, "--idle".into(), idle.into()];
        for entry in allowed {
            arguments.extend(["--allow".to_string(), entry.to_string()]);
        }
        Ok(Job {
            // clap has refused a command line without it.
            agents: matches.get_one("agents").copied().unwrap_or(1),
            name: text(matches, "name"),
            namespace,
            image: text(matches, "image"),
            secret: text(matches, "secret"),
            credentials,
            has_ca: matches.get_flag("ca"),
            cpu: text(matches, "cpu"),
            memory: text(matches, "memory"),
            arguments,
        })
    }

    /// The keys of the Secret, each with the variable that it is read through, and whether as a file.
    fn keys(&self) -> Vec<(&'static str, &'static str, bool)> {
        let mut keys = match self.credentials {
            "token" => vec![("token", "NATS_TOKEN", false)],
            "user" => vec![("user", "NATS_USER", false), ("password", "NATS_PASSWORD", false)],
            "nkey" => vec![("nats.nk", "NATS_NKEY", true)],
            _ => vec![("nats.creds", "NATS_CREDS", true)],
        };
        if self.has_ca {
            keys.push(("ca.crt", "NATS_CA", true));
        }
        keys
    }

    /// The manifest. Texts of the user are quoted as JSON, which is YAML.
    fn manifest(&self) -> String {
        let Job { agents, name, image, secret, cpu, memory, .. } = self;
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let backoff = (*agents).max(6);
        let of_namespace = self.namespace.map_or(String::new(), |name| format!(" --namespace {name}"));
        let literals = self.keys().into_iter().map(|(key, _, is_file)| match is_file {
            true => format!(" --from-file={key}=FILE"),
            false => format!(" --from-literal={key}=..."),
        });
        let literals: String = literals.collect();
        let namespace =
            self.namespace.map_or(String::new(), |name| format!("\n  namespace: {}", quoted(name)));
        let arguments: String =
            self.arguments.iter().map(|argument| format!("\n            - {}", quoted(argument))).collect();
        let mut variables = String::new();
        for (key, variable, is_file) in self.keys() {
            variables += &format!("\n            - name: {variable}");
            if is_file {
                variables += &format!("\n              value: {FOLDER}/{key}");
            } else {
                variables += &format!(
                    "\n              valueFrom:\n                secretKeyRef:\n                  name: {secret}\n                  key: {key}"
                );
            }
        }
        let has_files = self.keys().iter().any(|(_, _, is_file)| *is_file);
        let (mount, volume) = match has_files {
            true => (
                format!(
                    "\n            - name: nats\n              mountPath: {FOLDER}\n              readOnly: true"
                ),
                // 288 is 0440, in all versions of YAML.
                format!(
                    "\n        - name: nats\n          secret:\n            secretName: {secret}\n            defaultMode: 288"
                ),
            ),
            false => Default::default(),
        };
        let labels = |indent: usize| {
            let line = |(name, value)| format!("\n{:indent$}app.kubernetes.io/{name}: {value}", "");
            [("name", "plimsoll"), ("component", "agent"), ("instance", *name)].map(line).concat()
        };
        format!(
            "\
# Agents of Plimsoll, as an indexed Job. Before: kubectl create secret generic {secret}{of_namespace}{literals}
# Afterwards: kubectl delete job {name}{of_namespace}
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}{namespace}
  labels:{}
spec:
  completionMode: Indexed
  completions: {agents}
  parallelism: {agents}
  backoffLimit: {backoff}
  ttlSecondsAfterFinished: 600
  template:
    metadata:
      labels:{}
    spec:
      restartPolicy: OnFailure
      automountServiceAccountToken: false
      enableServiceLinks: false
      # Two agents on one node would share its CPUs and its network.
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:{}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: agent
          image: {}
          command:
            - plimsoll
          args:{arguments}
          env:
            - name: PLIMSOLL_STATE_DIR
              value: /state{variables}
          resources:
            requests:
              cpu: {}
              memory: {}
            limits:
              cpu: {}
              memory: {}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop:
                - ALL
          volumeMounts:
            - name: state
              mountPath: /state
            - name: state
              mountPath: /tmp{mount}
      volumes:
        - name: state
          emptyDir:
            sizeLimit: 64Mi{volume}
",
            labels(4),
            labels(8),
            labels(14),
            quoted(image),
            quoted(cpu),
            quoted(memory),
            quoted(cpu),
            quoted(memory),
        )
    }
}

/// Whether a text can be the name of a Job, whose pods have a number after it (RFC 1123).
fn is_label(text: &str) -> bool {
    let is_inside = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=52).contains(&text.len())
        && text.chars().all(is_inside)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

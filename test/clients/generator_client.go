// A round trip with the Go client that openapi-generator generates.
package main

import (
	"context"
	"fmt"
	"os"

	lab "example.com/lab"
)

func must(err error, holds bool, what string) {
	if err != nil || !holds {
		fmt.Fprintln(os.Stderr, what, err)
		os.Exit(1)
	}
}

func main() {
	configuration := lab.NewConfiguration()
	configuration.Servers = lab.ServerConfigurations{{URL: os.Args[1]}}
	client := lab.NewAPIClient(configuration)
	ctx := context.Background()
	input := lab.NewInput(1.5)
	input.SetSteps(0)
	inputs := []lab.Input{*input}

	created, _, err := client.PredictionsAPI.CreatePrediction(ctx).Input(inputs).Prefer("wait").CancelAfter(30).Execute()
	must(err, err == nil && created.Status == "success" && created.Outputs[0].Y == 4, "create")
	read, _, err := client.PredictionsAPI.GetPrediction(ctx, created.PredictionId).Execute()
	must(err, err == nil && read.Outputs[0].Y == 4, "read")

	wrong := lab.NewInput(2)
	wrong.SetSteps(0)
	wrong.SetFail("preprocess")
	failed, _, err := client.PredictionsAPI.CreatePrediction(ctx).Input(append(inputs, *wrong)).Prefer("wait").Execute()
	must(err, err == nil && failed.Errors[0].Index == 1 && failed.PartialOutputs[0].Y == 4 && failed.PartialOutputs[1] == nil, "fail in part")

	shown, _, err := client.DemoAPI.CreateDemoPrediction(ctx).Input(inputs).Prefer("wait").Execute()
	must(err, err == nil && shown.DemoOutputs[0].Y == 4, "demo")

	_, response, err := client.PredictionsAPI.GetPrediction(ctx, "none").Execute()
	problem, isProblem := err.(*lab.GenericOpenAPIError).Model().(lab.Problem)
	must(nil, response.StatusCode == 404 && isProblem && problem.Type == "urn:sconce:problem:prediction_not_found", "unknown")
}
